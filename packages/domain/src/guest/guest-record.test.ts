import { expect, test } from "vitest";
import { decodeGuest, encodeGuest, guestRecord } from "./guest-record.ts";

const conf = [
  "#first line: of the description",
  "boot: order=ide2;scsi0",
  "cores: 4",
  "ide2: local:iso/x.iso,media=cdrom,size=5M",
  "memory: 2048",
  "name: web",
  "scsi0: local:100/vm-100-disk-0.qcow2,size=32G",
  "sockets: 2",
  "tags: a;b",
  "[snap1]",
  "name: old",
  "",
].join("\n");

test("reads what lists show from the configuration text", () => {
  expect(guestRecord({ vmid: 100, type: "qemu", node: "n1", conf }).summary).toEqual({
    name: "web",
    cpus: 8,
    maxmem: 2048 * 1024 * 1024,
    maxdisk: 32 * 1024 ** 3,
    template: false,
    tags: "a;b",
  });
});

test("has PVE's defaults for an empty configuration", () => {
  expect(guestRecord({ vmid: 100, type: "qemu", node: "n1", conf: "" }).summary).toEqual({
    name: "VM 100",
    cpus: 1,
    maxmem: 512 * 1024 * 1024,
    maxdisk: 0,
    template: false,
  });
});

test("knows containers, vcpus, locks, templates and decimal sizes", () => {
  const ct = guestRecord({
    vmid: 7,
    type: "lxc",
    node: "n1",
    conf: "hostname: c\ncores: 3\nrootfs: l:x,size=1.5G\n",
  });
  expect(ct.summary).toMatchObject({ name: "c", cpus: 3, maxdisk: 1.5 * 1024 ** 3 });
  const vm = guestRecord({
    vmid: 8,
    type: "qemu",
    node: "n1",
    conf: "vcpus: 2\ncores: 8\nlock: clone\ntemplate: 1\nbootdisk: sata0\nsata0: l:x,size=10\n",
  });
  expect(vm.summary).toMatchObject({ cpus: 2, lock: "clone", template: true, maxdisk: 10 });
});

test("survives the way to the store and back, and refuses unknown shapes", () => {
  const guest = guestRecord({ vmid: 100, type: "qemu", node: "n1", conf });
  expect(decodeGuest(JSON.parse(JSON.stringify(encodeGuest(guest))))).toEqual(guest);
  const pooled = { ...guest, wantedPool: "prod" };
  expect(decodeGuest(JSON.parse(JSON.stringify(encodeGuest(pooled))))).toEqual(pooled);
  expect(() => decodeGuest({ vmid: "100" })).toThrow("shape this version does not know");
});
