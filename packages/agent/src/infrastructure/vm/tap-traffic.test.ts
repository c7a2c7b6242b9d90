import { expect, test } from "vitest";
import { tapTraffic } from "./tap-traffic.ts";

test("reads the kernel's counters of a device, and none of one that is gone", () => {
  expect(tapTraffic("lo")).toEqual({ received: expect.any(Number), sent: expect.any(Number) });
  expect(tapTraffic("gpve-no-such")).toBeUndefined();
});
