import { expect, test } from "vitest";
import { contextOf } from "../../../testing/storage-world.ts";
import { createVmStatisticsHandlers } from "./vm-statistics-handlers.ts";

const ctx = contextOf(undefined);
const handlers = createVmStatisticsHandlers({
  statistics: (vmid, timeframe, cf) => [
    { vmid, minutes: timeframe === "hour" ? 60 : 0, max: cf === "MAX" ? 1 : 0 },
  ],
});

test("shows the statistics of one VM", () => {
  const show = handlers["GET /nodes/{node}/qemu/{vmid}/rrddata"];
  expect(show?.({ node: "n1", vmid: 100, timeframe: "hour" }, ctx)).toEqual([
    { vmid: 100, minutes: 60, max: 0 },
  ]);
  expect(show?.({ node: "n1", vmid: 100, timeframe: "day", cf: "MAX" }, ctx)).toEqual([
    { vmid: 100, minutes: 0, max: 1 },
  ]);
});
