import { given } from "@gpve/contracts/given.ts";
import { describe, expect, it } from "vitest";
import { nodeConditions, nodePhase } from "./node-conditions.ts";
import { nodeResources } from "./node-resources.ts";
import type { NodeView } from "./runtime.ts";
import { formatTaint, parseTaint } from "./taint.ts";

const GiB = 1024 ** 3;

function view(
  more: { health?: string; at?: number; avail?: number; memory?: number; reserve?: object } = {},
): NodeView {
  const { health = "online", at = 10_000, avail = 50, memory = 50, reserve } = more;
  return {
    node: "n1",
    health,
    lastSeen: 10_000,
    facts: {
      cpu: { cpus: 8 },
      memoryBytes: 32 * GiB,
      gpus: [{}, {}],
      capabilities: [{ name: "kvm", available: false, detail: "the guest did not run" }],
    },
    report: {
      at,
      usage: { memory: { total: 100, available: memory }, rootfs: { total: 100, avail: 50 } },
      guests: [],
      storages: [
        { storage: "local", active: true, totalBytes: 100, usedBytes: 100 - avail, availBytes: avail },
        { storage: "off", active: false, totalBytes: 9, usedBytes: 9, availBytes: 0 },
      ],
      ...given({ reserve }),
    },
  } as unknown as NodeView;
}

describe("what a node can take", () => {
  it("is what it has without its reserve, times overcommit; what guests have is told beside it", () => {
    const reserve = { cpu: 1, memoryBytes: 2 * GiB, overcommit: { cpu: 4, memory: 1.5 } };
    const running = [
      { cpus: 4, maxmem: GiB, gpus: 1 },
      { cpus: 2, maxmem: 3 * GiB, gpus: 0 },
    ];
    expect(nodeResources(view({ reserve }), running)).toEqual({
      capacity: { cpu: 8, memory: 32 * GiB, storage: { local: 100 }, gpus: 2 },
      allocatable: { cpu: 28, memory: 45 * GiB, storage: { local: 100 }, gpus: 2 },
      allocated: { cpu: 6, memory: 4 * GiB, storage: { local: 50 }, gpus: 1 },
    });
  });

  it("is all of its memory and its CPUs four times over without a reserve, nothing where all is reserved, and not known of a silent node", () => {
    expect(nodeResources(view(), [])?.allocatable).toMatchObject({ cpu: 32, memory: 32 * GiB });
    const all = { cpu: 9, memoryBytes: 64 * GiB, overcommit: { cpu: 2, memory: 2 } };
    expect(nodeResources(view({ reserve: all }), [])?.allocatable).toMatchObject({ cpu: 0, memory: 0 });
    expect(nodeResources({ ...view(), report: undefined }, [])).toBeUndefined();
  });
});

describe("what is so about a node", () => {
  const said = (of: NodeView | undefined): string[] =>
    nodeConditions(of).map(({ type, status, message = "" }) => `${type} ${status} ${message}`.trim());

  it("is told with the reason where something is wrong", () => {
    expect(said(view())).toEqual([
      "Ready True",
      "MemoryPressure False",
      "DiskPressure False",
      "KVMUsable False the guest did not run",
      "ClockSkew False",
    ]);
    expect(said(view({ memory: 4, avail: 1, at: 70_000 }))).toEqual([
      "Ready True",
      "MemoryPressure True 4.0 % of its memory is available",
      "DiskPressure True less than 5 % is free on storage local",
      "KVMUsable False the guest did not run",
      "ClockSkew True its clock is about 60 s ahead of this server's",
    ]);
  });

  it("has how its agent and the server get along, by protocol, whatever their versions", () => {
    const software = { version: "0.1.0", serverVersion: "0.1.0", protocol: 4 };
    expect(said({ ...view(), software }).at(-1)).toBe("Compatible True");
    expect(said({ ...view(), software: { ...software, version: "0.1.2", protocol: 3 } }).at(-1)).toBe(
      "Compatible True agent 0.1.2, this server 0.1.0: both speak protocol 3",
    );
  });

  it("is only that it is silent, where it is", () => {
    expect(said(view({ health: "offline" }))).toEqual([
      "Ready False its agent does not report; its guests go on running",
    ]);
    expect(said(undefined)).toEqual(["Ready Unknown"]);
    const refused = "agent speaks protocol 1-2, this server needs at least 3: upgrade the agent";
    const software = { version: "0.0.9", serverVersion: "0.1.0", refused };
    expect(said({ ...view({ health: "offline" }), software })).toEqual([
      "Ready False its agent does not report; its guests go on running",
      `Compatible False ${refused} (agent 0.0.9, this server 0.1.0)`,
    ]);
    expect([nodePhase(view()), nodePhase(view({ health: "offline" })), nodePhase(undefined)]).toEqual([
      "Ready",
      "NotReady",
      "Unknown",
    ]);
  });
});

it.each([
  ["gpu", "gpu:NoSchedule"],
  ["gpu=only", "gpu=only:NoSchedule"],
  ["a.b/c=:PreferNoSchedule", "a.b/c=:PreferNoSchedule"],
])("taint %s means %s", (text, whole) => {
  expect(formatTaint(parseTaint(text))).toBe(whole);
  expect(parseTaint(whole)).toEqual(parseTaint(text));
});
