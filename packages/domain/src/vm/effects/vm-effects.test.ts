import { expect, test } from "vitest";
import { NO_ANSWERS, type Answers } from "../../quota/effects.ts";
import { parseVmConfig } from "../config/parse-config.ts";
import { vmEffects, type KnownVm, type JudgedRequest } from "./vm-effects.ts";

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;
const SMALL = { cpu: 1, memory: 512 * MIB, vmCount: 1 };
const DISK = { storage: GIB, "storage/local": GIB };

const vm = (vmid: number, ...lines: readonly string[]): KnownVm => ({
  vmid,
  config: parseVmConfig(`${lines.join("\n")}\n`, { vmid, digestOf: () => "" }),
  sizes: {},
});

const machine = vm(100, "scsi0: local:100/vm-100-disk-0.raw,size=1G", "tags: gold");

function effectsOf(
  route: string,
  params: Readonly<Record<string, unknown>>,
  { vms = [machine], answers = NO_ANSWERS }: { vms?: readonly KnownVm[]; answers?: Answers } = {},
) {
  const request: JudgedRequest = {
    params,
    vm: (vmid) => vms.find((each) => each.vmid === vmid),
    ofNode: () => vms,
    inPool: (pool) => (pool === "web" ? [100, 7] : []),
    may: (vmid) => vmid !== 105,
  };
  const row = vmEffects[route];
  return { unknowns: row?.unknowns?.(request), effects: row?.effects(request, answers) ?? [] };
}

const QEMU = "POST /nodes/{node}/qemu";
const ONE = `${QEMU}/{vmid}`;

test("a new VM: what is allocated, imported and made beside it", () => {
  const params = {
    vmid: 200,
    pool: "a",
    cores: 2,
    memory: "1024",
    scsi0: "local:10",
    scsi1: "local:0,import-from=local:import/x.qcow2",
    ide2: "local:cloudinit",
    efidisk0: "local:1,efitype=4m",
    start: true,
  };
  const answers = { sizes: { "local:import/x.qcow2": 3 * GIB } };
  const { unknowns, effects } = effectsOf(QEMU, params, { answers });
  expect(unknowns).toEqual({ volumes: ["local:import/x.qcow2"] });
  expect(effects).toEqual([
    {
      vmid: 200,
      type: "qemu",
      isNew: { pool: "a" },
      demand: {
        cpu: 2,
        memory: GIB,
        vmCount: 1,
        storage: 13 * GIB + 8 * MIB,
        "storage/local": 13 * GIB + 8 * MIB,
      },
      tags: [],
      starts: true,
    },
  ]);
});

test("a clone takes what its source shows, on the storage it goes to, and is no template", () => {
  const source = vm(
    100,
    "template: 1",
    "cores: 4",
    "scsi0: local:100/base-100-disk-0.raw,size=1G",
    "unused0: local:x",
  );
  const params = { vmid: 100, newid: 300, pool: "b", storage: "fast", full: true };
  expect(effectsOf(`${ONE}/clone`, params, { vms: [source] }).effects).toMatchObject([
    { vmid: 300, isNew: { pool: "b" }, demand: { ...SMALL, cpu: 4, storage: GIB, "storage/fast": GIB } },
  ]);
});

test("disks of one name on two storages are two disks, also in a clone onto one", () => {
  const source = vm(100, "scsi0: one:vm-100-disk-0,size=1G", "scsi1: two:vm-100-disk-0,size=1G");
  const params = { vmid: 100, newid: 300, storage: "fast" };
  expect(effectsOf(`${ONE}/clone`, params, { vms: [source] }).effects[0]?.demand).toMatchObject({
    storage: 2 * GIB,
  });
});

test("a restore takes what the archive says, with what the request overrides", () => {
  const archived = "cores: 4\nmemory: 2048\nscsi0: old:vm-1-disk-0,size=5G\n";
  const params = { vmid: 200, archive: "local:backup/x.vma", storage: "local", memory: "4096" };
  expect(effectsOf(QEMU, params).unknowns).toEqual({ volumes: [], archive: "local:backup/x.vma" });
  expect(effectsOf(QEMU, params, { answers: { sizes: {}, archived } }).effects).toMatchObject([
    { isNew: {}, demand: { cpu: 4, memory: 4 * GIB, "storage/local": 5 * GIB } },
  ]);
  const over = { ...params, vmid: 100, force: true };
  const [effect] = effectsOf(QEMU, over, { answers: { sizes: {}, archived } }).effects;
  expect(effect).toMatchObject({ vmid: 100, demand: { cpu: 4, "storage/local": 5 * GIB } });
  expect(effect).not.toHaveProperty("isNew");
});

test("a change of the configuration: what it adds; what it takes away is given back when it is gone", () => {
  const params = { vmid: 100, cores: 3, scsi1: "local:2", delete: "scsi0", tags: "gold;web" };
  expect(effectsOf("PUT /nodes/{node}/qemu/{vmid}/config", params).effects).toEqual([
    {
      vmid: 100,
      type: "qemu",
      demand: { ...SMALL, cpu: 3, storage: 3 * GIB, "storage/local": 3 * GIB },
      tags: ["gold", "web"],
    },
  ]);
});

test("a volume that nobody knows the size of is asked for; a size in the request is not believed", () => {
  const params = { vmid: 100, scsi1: "local:100/vm-100-disk-9.raw,size=1M" };
  const route = "PUT /nodes/{node}/qemu/{vmid}/config";
  expect(effectsOf(route, params).unknowns).toEqual({ volumes: ["local:100/vm-100-disk-9.raw"] });
  const answers = { sizes: { "local:100/vm-100-disk-9.raw": 7 * GIB } };
  expect(effectsOf(route, params, { answers }).effects[0]?.demand).toMatchObject({ storage: 8 * GIB });
});

test.each([
  ["+1G", 2 * GIB],
  ["4G", 4 * GIB],
])("a disk grown by %s", (size, bytes) => {
  const { effects } = effectsOf("PUT /nodes/{node}/qemu/{vmid}/resize", { vmid: 100, disk: "scsi0", size });
  expect(effects).toMatchObject([{ demand: { ...SMALL, storage: bytes, "storage/local": bytes } }]);
});

test("a moved disk counts where it goes; in all only when the old one stays", () => {
  const move = (more: object) =>
    effectsOf(`${ONE}/move_disk`, { vmid: 100, disk: "scsi0", ...more }).effects[0]?.demand;
  expect(move({ storage: "fast" })).toEqual({
    ...SMALL,
    storage: 2 * GIB,
    "storage/local": GIB,
    "storage/fast": GIB,
  });
  expect(move({ storage: "fast", delete: true })).toEqual({ ...SMALL, ...DISK, "storage/fast": GIB });
});

test("a disk that another VM is given counts there", () => {
  const params = { vmid: 100, disk: "scsi0", "target-vmid": 101 };
  expect(effectsOf(`${ONE}/move_disk`, params, { vms: [machine, vm(101)] }).effects).toMatchObject([
    { vmid: 101, demand: { ...SMALL, ...DISK } },
  ]);
});

test("snapshots, saved RAM and going back", () => {
  const ram = (2 * 512 + 500) * MIB;
  const took = effectsOf(`${ONE}/snapshot`, { vmid: 100, snapname: "x", vmstate: true }).effects[0];
  expect(took?.demand).toEqual({ ...SMALL, snapshots: 1, storage: GIB + ram, "storage/local": GIB + ram });
  const slept = effectsOf(`${ONE}/status/suspend`, { vmid: 100, todisk: true, statestorage: "fast" })
    .effects[0];
  expect(slept?.demand).toMatchObject({ "storage/fast": ram });
  expect(effectsOf(`${ONE}/status/suspend`, { vmid: 100 }).effects).toEqual([]);
  const back = vm(100, "cores: 1", "[big]", "cores: 8", "memory: 4096");
  const params = { vmid: 100, snapname: "big", start: true };
  expect(effectsOf(`${ONE}/snapshot/{snapname}/rollback`, params, { vms: [back] }).effects).toMatchObject([
    { demand: { cpu: 8, memory: 4 * GIB }, starts: true },
  ]);
});

test("what starts: one, one that sleeps, all that a node starts", () => {
  const asleep = vm(101, "lock: suspended");
  const first = vm(102, "onboot: 1");
  const base = vm(103, "onboot: 1", "template: 1");
  const vms = [machine, asleep, first, base];
  const who = (route: string, params: object) =>
    effectsOf(route, { ...params }, { vms }).effects.map(({ vmid, starts }) => [vmid, starts]);
  expect(who(`${ONE}/status/start`, { vmid: 100 })).toEqual([[100, true]]);
  expect(who(`${ONE}/status/resume`, { vmid: 100 })).toEqual([]);
  expect(who(`${ONE}/status/resume`, { vmid: 101 })).toEqual([[101, true]]);
  expect(who("POST /nodes/{node}/startall", {})).toEqual([[102, true]]);
  expect(who("POST /nodes/{node}/startall", { vms: "100,102" })).toEqual([
    [100, true],
    [102, true],
  ]);
});

test("of a VM that is not there, and of methods that take nothing, nothing is expected", () => {
  expect(effectsOf(`${ONE}/status/start`, { vmid: 999 }).effects).toEqual([]);
  expect(vmEffects[`${ONE}/status/stop`]).toBeUndefined();
});

test("a backup: one more of each guest that is meant and that the caller may back up", () => {
  const vms = [{ ...machine, backups: 2 }, vm(101), vm(105)];
  const meant = (params: Readonly<Record<string, unknown>>) =>
    effectsOf("POST /nodes/{node}/vzdump", params, { vms }).effects.map(({ vmid, demand }) => [
      vmid,
      demand.backups,
    ]);
  expect(meant({ vmid: "100,105,999" })).toEqual([[100, 3]]);
  expect(meant({ all: true })).toEqual([
    [100, 3],
    [101, 1],
  ]);
  expect(meant({ exclude: "100" })).toEqual([[101, 1]]);
  expect(meant({ pool: "web" })).toEqual([[100, 3]]);
  expect(meant({ pool: "empty" })).toEqual([]);
  expect(meant({ stop: true })).toEqual([]);
});
