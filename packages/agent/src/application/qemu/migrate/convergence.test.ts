import type { MigrationInfo } from "@gpve/domain/vm/qmp/qmp-types.ts";
import { expect, it } from "vitest";
import { Convergence } from "./convergence.ts";

const at = (passes: number, throttle?: number): MigrationInfo => ({
  status: "active",
  ram: {
    transferred: 0,
    total: 1,
    remaining: 1,
    mbps: 0,
    "dirty-pages-rate": 0,
    "dirty-sync-count": passes,
  },
  ...(throttle === undefined ? {} : { "cpu-throttle-percentage": throttle }),
});

it("gives a guest up that is as slow as may be and still too quick", () => {
  const convergence = new Convergence();
  const judged = [at(1), at(4, 40), at(6, 60), at(8, 80), at(10, 80), at(11, 80)].map((info) =>
    convergence.isHopeless(info),
  );
  expect(judged).toEqual([false, false, false, false, false, true]);
});

it("gives a guest up that goes on and on, and none whose end has begun", () => {
  const convergence = new Convergence();
  expect(convergence.isHopeless(at(40))).toBe(false);
  expect(convergence.isHopeless(at(41))).toBe(true);
  expect(convergence.isHopeless({ ...at(41), status: "device" })).toBe(false);
  expect(convergence.isHopeless({})).toBe(false);
});
