import { describe, expect, test } from "vitest";
import { readVirtualClusterSpec, shownVirtualClusterSpec } from "../vcluster-spec.ts";
import { wantedVnodes } from "../vnode/worker-pools.ts";
import { devicesIn, hasDevices, totalDevices, whyTooFewDevices } from "./worker-devices.ts";

const GPU = "nvidia.com/gpu";
const spec = readVirtualClusterSpec({
  workerNodes: {
    count: 2,
    devices: { [GPU]: 1, "amd.com/gpu": 0 },
    pools: [
      { name: "big", count: 1, devices: { [GPU]: 4 } },
      { name: "plain", count: 3 },
    ],
  },
});

describe("devices that workers shall have", () => {
  test("are each worker's, by its pool, and shown as they were asked for", () => {
    expect(wantedVnodes(spec, []).map(({ name, devices }) => [name, devices])).toEqual([
      ["worker-1", { [GPU]: 1 }],
      ["worker-2", { [GPU]: 1 }],
      ["big-1", { [GPU]: 4 }],
      ["plain-1", undefined],
      ["plain-2", undefined],
      ["plain-3", undefined],
    ]);
    expect(readVirtualClusterSpec(shownVirtualClusterSpec(spec))).toEqual(spec);
    expect([devicesIn(spec, undefined), devicesIn(spec, "big"), devicesIn(spec, "plain")]).toEqual([
      { [GPU]: 1 },
      { [GPU]: 4 },
      {},
    ]);
  });

  test("of clusters that say nothing leave no trace", () => {
    const plain = readVirtualClusterSpec({ workerNodes: { count: 1, pools: [{ name: "a", count: 1 }] } });
    expect([hasDevices(plain), hasDevices(spec)]).toEqual([false, true]);
    expect(JSON.stringify([plain, shownVirtualClusterSpec(plain), wantedVnodes(plain, [])])).not.toContain(
      "devices",
    );
  });

  test("are counted together, and compared with what a node has", () => {
    expect(totalDevices(spec)).toEqual({ [GPU]: 6 });
    expect(whyTooFewDevices(spec, { [GPU]: 6 })).toBeUndefined();
    expect(whyTooFewDevices(spec, { [GPU]: 5 })).toBe(
      `its workers would have 6 ${GPU}, and the node offers 5`,
    );
    expect(whyTooFewDevices(spec, {})).toContain("the node offers 0");
    expect(whyTooFewDevices(readVirtualClusterSpec({}), {})).toBeUndefined();
  });

  test.each([
    [{ workerNodes: { devices: { gpu: 1 } } }, "spec.workerNodes.devices: 'gpu' is no kind of devices"],
    [{ workerNodes: { devices: { [GPU]: 1.5 } } }, "must be a whole number from 0 to 64"],
    [{ workerNodes: { devices: { [GPU]: "1" } } }, "must be a whole number from 0 to 64"],
    [
      { workerNodes: { pools: [{ name: "a", devices: { [GPU]: 65 } }] } },
      "spec.workerNodes.pools[0].devices",
    ],
    [
      { isolationLevel: "L2", workerNodes: { devices: { [GPU]: 1 } } },
      "pods of level L2 have a kernel of their own",
    ],
    [
      { isolationLevel: "L3", workerNodes: { devices: { [GPU]: 1 } } },
      "pods of level L3 have a kernel of their own",
    ],
    [
      { isolationLevel: "L3", workerNodes: { pools: [{ name: "a", devices: { [GPU]: 1 } }] } },
      "spec.workerNodes.pools: pods of level L3",
    ],
    [
      { scheduling: { spread: true }, workerNodes: { devices: { [GPU]: 1 } } },
      "devices for workers on several nodes are not offered by this release",
    ],
  ])("refuses %j with the reason", (wanted, why) => {
    expect(() => readVirtualClusterSpec(wanted)).toThrow(why);
  });
});
