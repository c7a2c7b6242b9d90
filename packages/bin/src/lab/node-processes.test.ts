import { expect, test } from "vitest";
import { processesOf, type FoundProcess } from "./node-processes.ts";

const found = (pid: number, more: Partial<FoundProcess> = {}): FoundProcess => ({
  pid,
  parent: 1,
  state: "S",
  network: "net:[1]",
  cgroups: "0::/\n",
  ...more,
});
const marks = { network: "net:[7]", instanceId: "abc123" };
const pids = (all: readonly FoundProcess[]): number[] => processesOf(all, marks).map(({ pid }) => pid);

test("a node's processes are those of its network, its cgroups, and their children", () => {
  const all = [
    found(1, { parent: 0 }),
    found(10, { network: "net:[7]" }),
    found(11, { cgroups: "4:memory:/gpve-abc123/guest-100\n0::/\n", network: "net:[9]" }),
    found(12, { parent: 13, network: undefined }),
    found(13, { parent: 11 }),
    found(14, { cgroups: "4:memory:/gpve-abc123-vc/guest-demo.etcd\n", network: "net:[9]" }),
    found(20),
    found(21, { cgroups: "4:memory:/gpve-abc1234/guest-100\n" }),
  ];
  expect(pids(all)).toEqual([10, 11, 12, 13, 14]);
});

test("a node that never ran and has no namespace has no processes, whatever else runs", () => {
  const all = [found(1, { parent: 0 }), found(2, { network: undefined })];
  expect(processesOf(all, { network: undefined, instanceId: undefined })).toEqual([]);
});
