import { expect, test } from "vitest";
import { newMac } from "./new-mac.ts";

test("addresses begin as the datacenter says", () => {
  expect(newMac()).toMatch(/^BC:24:11(:[0-9A-F]{2}){3}$/);
  expect(newMac("aa:bb")).toMatch(/^AA:BB(:[0-9A-F]{2}){4}$/);
  expect(newMac("02:")).toMatch(/^02(:[0-9A-F]{2}){5}$/);
  expect(newMac()).not.toBe(newMac());
});
