import { expect, test } from "vitest";
import { parseVmConfig } from "../config/parse-config.ts";
import {
  leftDiscs,
  parseRemoteEndpoint,
  remoteCreateParams,
  remoteDisks,
  requireLeavable,
} from "./remote-move.ts";
import { parseStorageMap } from "./storage-map.ts";

const conf = (...lines: string[]) =>
  parseVmConfig(`${lines.join("\n")}\n`, { vmid: 100, digestOf: () => "d" });
const fingerprint = Array.from({ length: 32 }, () => "AB").join(":");

test("an endpoint is read as PVE writes it, and refused without a token", () => {
  const text = `host=10.0.0.1,apitoken=PVEAPIToken=root@pam!m=secret,fingerprint=${fingerprint}`;
  expect(parseRemoteEndpoint(text)).toEqual({
    host: "10.0.0.1",
    port: 8006,
    apitoken: "root@pam!m=secret",
    fingerprint,
  });
  expect(parseRemoteEndpoint("host=x,port=1,apitoken=a@b!c=d")).toEqual({
    host: "x",
    port: 1,
    apitoken: "a@b!c=d",
  });
  expect(() => parseRemoteEndpoint("host=x,apitoken=nothing")).toThrow(
    expect.objectContaining({ errors: { "target-endpoint": "needs host and apitoken" } }),
  );
});

test("a VM is asked for with its disks from what was uploaded, its cards on mapped bridges, and nothing of its place", () => {
  const config = conf(
    "meta: creation-qemu=7.2.0",
    "name: web",
    "vmgenid: 6c0a7f6e-52f7-4a61-8a4a-2d2a60ad5dd4",
    "ide0: local:iso/debian.iso,media=cdrom",
    "ide1: none,media=cdrom",
    "ide2: local:100/vm-100-cloudinit.qcow2,media=cdrom",
    "net0: virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=3",
    "net1: virtio=BC:24:11:00:00:02,bridge=vmbr9",
    "scsi0: local:100/vm-100-disk-0.qcow2,discard=on,size=1G",
    "scsi1: file=fast:vm-100-disk-1,size=1G",
  );
  const storages = parseStorageMap("fast:slow,store");
  const disks = remoteDisks(100, config, storages);
  expect(disks).toEqual([
    { key: "scsi0", volid: "local:100/vm-100-disk-0.qcow2", storage: "store" },
    { key: "scsi1", volid: "fast:vm-100-disk-1", storage: "slow" },
  ]);
  const files = { scsi0: { file: "store:import/a.qcow2" }, scsi1: { file: "slow:import/b.raw" } };
  const bridges = parseStorageMap("vmbr0:vmbr5,vmbr1");
  expect(remoteCreateParams(config, 300, disks, files, { storages, bridges })).toEqual({
    vmid: "300",
    name: "web",
    ide0: "none,media=cdrom",
    ide1: "none,media=cdrom",
    ide2: "store:cloudinit",
    net0: "virtio=BC:24:11:00:00:01,bridge=vmbr5,tag=3",
    net1: "virtio=BC:24:11:00:00:02,bridge=vmbr1",
    scsi0: "store:0,import-from=store:import/a.qcow2,discard=on",
    scsi1: "slow:0,import-from=slow:import/b.raw",
  });
  expect(leftDiscs(config)).toEqual(["ide0 (local:iso/debian.iso)"]);
});

test("snapshots keep a VM in its cluster", () => {
  const config = conf("name: web", "", "[s1]", "name: web");
  expect(() => remoteDisks(100, config, parseStorageMap("1"))).toThrow("has snapshots (s1)");
});

test("disks that are not attached keep it too: with its source they would go", () => {
  const config = conf("name: web", "unused0: local:100/vm-100-disk-2.qcow2");
  expect(() => remoteDisks(100, config, parseStorageMap("1"))).toThrow("has unused disks (unused0)");
});

test("one that runs is asked for with empty disks of the same size", () => {
  const config = conf("scsi0: local:100/vm-100-disk-0.raw,discard=on,size=51M");
  const maps = { storages: parseStorageMap("store"), bridges: parseStorageMap("1") };
  const disks = remoteDisks(100, config, maps.storages);
  const sized = (bytes: number) => remoteCreateParams(config, 300, disks, { scsi0: { bytes } }, maps);
  expect(sized(51 * 1024 ** 2)["scsi0"]).toBe("store:0.0498046875,discard=on");
  expect(() => sized(1000)).toThrow("no whole KiB");
});

test("what is bound to its place keeps a VM that runs", () => {
  const refusals = {
    "ide0: local:iso/debian.iso,media=cdrom": "discs that stay in this cluster (ide0 (local:iso/debian.iso))",
    "serial1: /dev/ttyS0": "devices of this node (serial1)",
    "tpmstate0: local:100/vm-100-disk-1.raw,size=4M,version=v2.0": "a TPM",
    "[PENDING]\ncores: 2": "wait for its next start (cores)",
  };
  for (const [lines, why] of Object.entries(refusals))
    expect(() => requireLeavable(100, conf("memory: 128", lines))).toThrow(why);
  expect(requireLeavable(100, conf("ide2: local:100/vm-100-cloudinit.qcow2,media=cdrom"))).toBeUndefined();
});
