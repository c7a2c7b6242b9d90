import { expect, it } from "vitest";
import { nodeReserve } from "./node-reserve.ts";

const overcommit = { cpu: 4, memory: 1.5 };

it("reads what a machine keeps for itself", () => {
  expect(nodeReserve({ reservedCPU: "500m", reservedMemory: "2Gi", overcommit })).toEqual({
    cpu: 0.5,
    memoryBytes: 2 * 1024 ** 3,
    overcommit,
  });
  expect(nodeReserve({ reservedCPU: undefined, reservedMemory: undefined, overcommit })).toEqual({
    cpu: 0,
    memoryBytes: 0,
    overcommit,
  });
});

it("names the key that it cannot read", () => {
  const read = (resources: Partial<Parameters<typeof nodeReserve>[0]>) => () =>
    nodeReserve({ reservedCPU: undefined, reservedMemory: undefined, overcommit, ...resources });
  expect(read({ reservedCPU: "one" })).toThrow('resources.reservedCPU: "one" is no number of CPUs');
  expect(read({ reservedMemory: "2GB" })).toThrow("resources.reservedMemory:");
});
