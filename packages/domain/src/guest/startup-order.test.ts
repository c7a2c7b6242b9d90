import { expect, test } from "vitest";
import { startOrder, stopGroups, stopOrder } from "./startup-order.ts";

const guests = [
  { vmid: 103, onboot: true },
  { vmid: 102, onboot: true, startup: "order=2,up=5,down=30" },
  { vmid: 101, onboot: true },
  { vmid: 104, onboot: true, startup: "1" },
];

test("guests start by order, then by VMID, with their delays", () => {
  expect(startOrder(guests)).toEqual([
    { vmid: 104, up: 0, down: undefined },
    { vmid: 102, up: 5, down: 30 },
    { vmid: 101, up: 0, down: undefined },
    { vmid: 103, up: 0, down: undefined },
  ]);
});

test("they stop the other way round", () => {
  expect(stopOrder(guests).map(({ vmid }) => vmid)).toEqual([103, 101, 102, 104]);
});

test("those of one order stop together", () => {
  const groups = stopGroups([...guests, { vmid: 105, onboot: false, startup: "order=2" }]);
  expect(groups.map((group) => group.map(({ vmid }) => vmid))).toEqual([[103, 101], [105, 102], [104]]);
  expect(stopGroups([])).toEqual([]);
});
