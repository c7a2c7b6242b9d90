import { expect, test } from "vitest";
import { claimOf } from "../quota/guest-demand.ts";
import { guestRecord } from "../guest/guest-record.ts";
import { parseVmConfig } from "./config/parse-config.ts";
import { unsaidSizes, vmDemand, vmVolumes } from "./vm-demand.ts";

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;
const config = (...lines: readonly string[]) =>
  parseVmConfig(`${lines.join("\n")}\n`, { vmid: 100, digestOf: () => "" });

test("counts all cores a guest may get, its memory at most, disks as it sees them and devices", () => {
  const demand = vmDemand(
    config(
      "cores: 4",
      "sockets: 2",
      "vcpus: 1",
      "memory: 2048",
      "balloon: 512",
      "scsi0: local:100/vm-100-disk-0.qcow2,size=32G",
      "scsi1: fast:vm-100-disk-1,size=8G",
      "ide2: local:iso/debian.iso,media=cdrom,size=600M",
      "ide0: local:100/vm-100-cloudinit.qcow2,media=cdrom,size=4M",
      "hostpci0: 0000:01:00",
    ),
  );
  expect(demand).toEqual({
    cpu: 8,
    memory: 2 * GIB,
    storage: 40 * GIB + 4 * MIB,
    "storage/local": 32 * GIB + 4 * MIB,
    "storage/fast": 8 * GIB,
    vmCount: 1,
    gpuCount: 1,
  });
});

test("has PVE's defaults where nothing is said", () => {
  expect(vmDemand(config())).toEqual({ cpu: 1, memory: 512 * MIB, vmCount: 1 });
});

test("counts a template as storage only", () => {
  expect(vmDemand(config("template: 1", "cores: 4", "scsi0: local:100/base-100-disk-0.raw,size=1G"))).toEqual(
    {
      storage: GIB,
      "storage/local": GIB,
    },
  );
});

test("of a change that waits for the next start the larger counts", () => {
  expect(vmDemand(config("cores: 4", "memory: 1024", "[PENDING]", "cores: 2", "memory: 4096"))).toMatchObject(
    {
      cpu: 4,
      memory: 4 * GIB,
    },
  );
});

test("counts a volume once, in snapshots too, and the RAM that a snapshot saved", () => {
  const demand = vmDemand(
    config(
      "memory: 1024",
      "scsi0: local:100/vm-100-disk-0.qcow2,size=4G",
      "[one]",
      "memory: 1024",
      "scsi0: local:100/vm-100-disk-0.qcow2,size=2G",
      "scsi1: local:100/vm-100-disk-1.qcow2,size=1G",
      "vmstate: local:100/vm-100-state-one.raw",
    ),
  );
  expect(demand).toMatchObject({ snapshots: 1, storage: 5 * GIB + (2 * 1024 + 500) * MIB });
});

test("a disk that becomes unused keeps its size, also through further changes", () => {
  const attached = config("scsi0: local:100/vm-100-disk-0.raw,size=3G");
  const detached = config("unused0: local:100/vm-100-disk-0.raw");
  const sizes = unsaidSizes(vmVolumes(attached), detached);
  expect(sizes).toEqual({ "local:100/vm-100-disk-0.raw": 3 * GIB });
  expect(vmDemand(detached, sizes)).toMatchObject({ storage: 3 * GIB });
  expect(unsaidSizes(vmVolumes(detached, sizes), detached)).toEqual(sizes);
  expect(unsaidSizes(vmVolumes(detached, sizes), config())).toBeUndefined();
});

test("reads the claim of a guest of each kind from its record", () => {
  const record = { vmid: 100, node: "n1" };
  const vm = guestRecord({ ...record, type: "qemu", conf: "cores: 2\ntags: gold;web\n" });
  expect(claimOf(vm)).toEqual({ demand: { cpu: 2, memory: 512 * MIB, vmCount: 1 }, tags: ["gold", "web"] });
  const ct = guestRecord({
    ...record,
    type: "lxc",
    conf: "cores: 2\nmemory: 256\nrootfs: local:100/vm-100-disk-0.raw,size=2G\nmp0: volume=fast:vol,mp=/x,size=1G\n",
  });
  expect(claimOf(ct).demand).toEqual({
    cpu: 2,
    memory: 256 * MIB,
    ctCount: 1,
    storage: 3 * GIB,
    "storage/local": 2 * GIB,
    "storage/fast": GIB,
  });
});
