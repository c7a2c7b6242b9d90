import fc from "fast-check";
import { expect, it } from "vitest";
import { decodeReport } from "./decode-report.ts";
import type { VirtualClusterRuntime, VnodeRuntime } from "../vcluster/vcluster-runtime.ts";
import type { GuestRuntime, NodeFacts, NodeReport, StorageRuntime } from "./runtime.ts";

// All that a report can have: what is added to the types and not to the decoder does not arrive.
const guest: Required<GuestRuntime> = {
  vmid: 100,
  type: "qemu",
  status: "running",
  uptimeSeconds: 5,
  cpu: 0.5,
  mem: 7,
  memhost: 8,
  diskread: 1,
  diskwrite: 2,
  netin: 3,
  netout: 4,
  drives: { scsi0: { read: 1, written: 2 } },
  nics: { tap100i0: { netin: 3, netout: 4 } },
  addresses: ["10.37.0.101", "fd00::1"],
  extra: { pid: 12 },
};
const storage: Required<StorageRuntime> = {
  storage: "local",
  active: true,
  totalBytes: 3,
  usedBytes: 2,
  availBytes: 1,
  problem: "its server does not answer",
};
const vnode: Required<VnodeRuntime> = {
  name: "worker-1",
  running: true,
  cpus: 2,
  memoryBytes: 4,
  pods: 3,
  volumes: 2,
  volumeBytes: 5,
  usedBytes: 3,
  cpuSeconds: 9,
  accelerator: "tcg",
};
const vcluster: Required<VirtualClusterRuntime> = {
  name: "demo",
  phase: "Failed",
  isBranch: true,
  power: "cold",
  message: "no room",
  endpoint: "https://x:6443",
  version: "1.36.4",
  readySince: 6,
  probedAt: 7,
  memoryBytes: 8,
  asleep: true,
  cpuSeconds: 9,
  cores: 0.5,
  uptimeSeconds: 10,
  wakes: 2,
  lastWakeMs: 62,
  keptAwake: { reason: "InUse", message: "Job default/pi" },
  vnodes: [vnode],
  keysAt: 7,
  formerTrustedUntil: 8,
  standby: { generation: 1, isJoined: true, isConnected: true, revision: 9, confirmed: 8 },
  volumes: { bound: 100, waiting: 50 },
  pods: { default: 3 },
  requests: { list: { count: 1, seconds: 0.5, buckets: { "0.5": 1 } } },
};
const facts: Required<NodeFacts> = {
  hostname: "h",
  kernel: { sysname: "Linux", release: "6", version: "v", machine: "x86_64" },
  osImage: "Debian",
  bootMode: "efi",
  secureBoot: true,
  bootId: "b",
  cpu: {
    model: "m",
    vendor: "v",
    sockets: 1,
    cores: 2,
    cpus: 4,
    mhz: "1",
    flags: "f",
    hvm: true,
    userHz: 100,
  },
  memoryBytes: 1,
  numa: [{ cpus: 2, memoryBytes: 5 }],
  disks: [{ name: "sda", sizeBytes: 1, model: "m", rotational: true }],
  bridges: ["vmbr0"],
  networks: [
    { name: "vmbr0", up: true, vlanAware: true, mtu: 1500, addresses: ["10.0.0.1/24"], ports: ["eth0"] },
  ],
  gpus: [{ uuid: "u", model: "m", memoryBytes: 1, driver: "d" }],
  devices: [{ kind: "nvidia.com/gpu", count: 2 }],
  cgroupVersion: 1,
  qemu: {
    version: "7.2",
    binary: "/usr/bin/q",
    machines: ["q35"],
    cpuFlags: { understood: ["a"], tcg: ["a"], kvm: ["a"] },
  },
  accelerator: "tcg",
  capabilities: [
    { name: "kvm", available: false, detail: "no", fix: "buy one" },
    { name: "qemu", available: true, detail: "yes" },
  ],
};
const report: Required<NodeReport> = {
  node: "n1",
  at: 1,
  agentVersion: "1",
  facts,
  usage: {
    cpu: 0.1,
    wait: 0.2,
    loadavg: [1, 2, 3],
    memory: { total: 4, used: 3, free: 2, available: 1 },
    swap: { total: 3, used: 2, free: 1 },
    rootfs: { total: 4, used: 3, free: 2, avail: 1 },
    uptimeSeconds: 9,
    netIn: 1,
    netOut: 2,
  },
  guests: [guest],
  storages: [storage],
  reserve: { cpu: 1, memoryBytes: 2, overcommit: { cpu: 4, memory: 1.5 } },
  defaults: { machine: "q35", cpu: "host", bridge: "vmbr1" },
  declaredStorages: [{ storage: "thin", type: "lvmthin", options: { vgname: "a", thinpool: "b" } }],
  standbys: [
    { name: "other", tenant: "default" },
    { name: "fed", tenant: "default", isFed: true },
  ],
  vclusters: [vcluster],
  ends: [
    { vmid: 100, at: 5, isCrash: true, why: "crashed, signal 11" },
    { vmid: 101, at: 6, isCrash: false, why: "stopped", owner: "n2" },
  ],
};

it("takes in everything that a report can have, and nothing else", () => {
  expect(decodeReport({ ...report, evil: 1 })).toEqual({ report, leftOut: [] });
});

it("leaves out what cannot be read, names it, and keeps the rest", () => {
  const { report: taken, leftOut } = decodeReport({
    ...report,
    facts: { ...facts, bridges: [1] },
    guests: [
      null,
      { ...guest, vmid: "100" },
      { ...guest, cpu: "1" },
      { ...guest, status: "sleeping" },
      guest,
      { ...guest, vmid: -1 },
    ],
    storages: [{ ...storage, storage: 5 }, storage],
  });
  expect(taken).toMatchObject({ guests: [guest], storages: [storage] });
  expect(taken.facts).toBeUndefined();
  expect(leftOut).toEqual([
    "facts: bridges is no text",
    "guest 0 of the report: guest is no object",
    "guest 1 of the report: vmid is no number",
    "guest 2 of the report: cpu is no number",
    "guest 3 of the report: status is none of running, stopped",
    "guest 5 of the report: vmid is none",
    "storage 0 of the report: storage is no text",
  ]);
});

it("takes any JSON for a report or refuses it, and what it takes has the types it says", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), fc.jsonValue(), (usage, one, other) => {
      const given = { node: "n1", at: 0, usage, guests: [one, guest], storages: [other], facts: other };
      let taken: NodeReport;
      try {
        taken = decodeReport(given).report;
      } catch {
        return;
      }
      expect(typeof taken.usage.memory.total).toBe("number");
      for (const { vmid, cpu } of taken.guests)
        expect([typeof vmid, typeof cpu]).toEqual(["number", "number"]);
      for (const { storage: name } of taken.storages) expect(typeof name).toBe("string");
      if (taken.facts !== undefined) expect(typeof taken.facts.cpu.cpus).toBe("number");
    }),
  );
});
