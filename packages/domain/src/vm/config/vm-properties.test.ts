import { describe, expect, it } from "vitest";
import {
  addUnused,
  detachDrive,
  driveFile,
  findCloudinitDrive,
  isCdrom,
  listDisks,
  listDrives,
  parseDrive,
  printDrive,
  requireDrive,
} from "./drive.ts";
import { driveChange, hotplugClass, netChange } from "../change/hotplug.ts";
import type { VmPropertyTypes } from "./property-types.ts";
import {
  memoryMiB,
  printBootDevices,
  printVmProperty,
  readBootDevices,
  readHotplug,
  readVmProperty,
} from "./vm-properties.ts";

const samples: { readonly [K in keyof VmPropertyTypes]: string } = {
  agent: "1,freeze-fs=0,fstrim_cloned_disks=1,type=isa",
  "amd-sev": "snp,allow-smt=0,kernel-hashes=1",
  audio0: "device=ich9-intel-hda,driver=none",
  boot: "order=scsi0;ide2;net0",
  cicustom: "meta=local:snippets/m,user=local:snippets/u",
  cpu: "host,flags=+aes;-pcid,hidden=1,phys-bits=host",
  efidisk0: "local:100/vm-100-disk-1.raw,efitype=4m,pre-enrolled-keys=1,size=528K",
  hostpci: "0000:01:00.0,pcie=1,x-vga=1",
  ide: "local:iso/x.iso,media=cdrom,size=4M",
  "intel-tdx": "tdx,attestation=1,vsock-cid=3",
  ipconfig: "gw=10.0.0.1,ip=10.0.0.2/24,ip6=auto",
  ivshmem: "size=32,name=shm",
  machine: "pc-q35-9.2+pve1,viommu=intel",
  memory: "2048",
  meta: "creation-qemu=9.2.0,ctime=1736349024",
  net: "virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1,mtu=1,queues=4,rate=1.5,tag=7,trunks=2;5-9",
  numaN: "cpus=0-3,hostnodes=0,memory=1024,policy=bind",
  rng0: "/dev/urandom,max_bytes=1024,period=1000",
  runningmachine: "pc-i440fx-9.2+pve1",
  sata: "local:100/vm-100-disk-2.qcow2,discard=on,size=1T,ssd=1",
  scsi: "local:100/vm-100-disk-0.qcow2,aio=io_uring,iothread=1,mbps_rd=10.5,size=32G,wwn=0x500a000000000001",
  smbios1: "base64=1,serial=YWJj,uuid=21a7e7bc-3cd2-4232-a009-a41f4ee992ae",
  spice_enhancements: "foldersharing=1,videostreaming=all",
  tpmstate0: "local:100/vm-100-disk-3.raw,size=4M,version=v2.0",
  unused: "local:100/vm-100-disk-9.raw",
  usb: "host=1234:abcd,usb3=1",
  vga: "virtio,clipboard=vnc,memory=64",
  virtio: "/dev/sdb,backup=0",
  virtiofs: "share1,cache=always,direct-io=1",
  watchdog: "i6300esb,action=reset",
};

describe("property strings of a VM", () => {
  it.each(Object.entries(samples))("reads and prints %s", (kind, text) => {
    const key = kind as keyof VmPropertyTypes;
    // The default key prints bare, however it was written.
    const printed = kind === "usb" ? text.replace("host=", "") : text;
    expect(printVmProperty(key, readVmProperty(key, text))).toBe(printed);
  });

  it("types the values", () => {
    expect(readVmProperty("net", samples.net)).toMatchObject({
      model: "virtio",
      tag: 7,
      firewall: true,
      rate: 1.5,
    });
    expect(readVmProperty("scsi", samples.scsi).size).toBe(32 * 1024 ** 3);
    expect(() => readVmProperty("net", "bridge=x", "net0")).toThrow("net0.model: property is missing");
    expect(() => readVmProperty("cpu", "warp9")).toThrow("Built-in cputype 'warp9' is not defined");
    expect(() => readVmProperty("cores" as "cpu", "1")).toThrow("cores is no property string");
  });

  it("reads the small lists", () => {
    expect([...readHotplug(undefined)]).toEqual(["network", "disk", "usb"]);
    expect([...readHotplug("0")]).toEqual([]);
    expect([...readHotplug("cpu,memory")]).toEqual(["cpu", "memory"]);
    expect(readBootDevices("order=scsi0;net0")).toEqual(["scsi0", "net0"]);
    expect(readBootDevices(" ")).toEqual([]);
    expect(readBootDevices("cdn")).toBeUndefined();
    expect(readBootDevices(undefined)).toBeUndefined();
    expect(printBootDevices(["a1", "b2"])).toBe("order=a1;b2");
    expect(printBootDevices([])).toBe("");
    expect([memoryMiB(undefined), memoryMiB("2048"), memoryMiB("current=64")]).toEqual([512, 2048, 64]);
  });
});

describe("drives", () => {
  it("keeps byte rates in megabytes", () => {
    expect(parseDrive("scsi0", "l1:x,bps_rd=1048576")).toEqual({ file: "l1:x", mbps_rd: 1 });
    expect(printDrive("scsi0", requireDrive("scsi0", "l1:x,bps=1572864"))).toBe("l1:x,mbps=1.5");
  });

  it("refuses contradictions as PVE does", () => {
    for (const text of [
      "l1:x,bps=1,mbps=1",
      "l1:x,mbps=1,mbps_rd=1",
      "l1:x,iops=1,iops_wr=1",
      "l1:x,mbps_max=1",
      "l1:x,media=cdrom,snapshot=1",
      "l1:x,media=cdrom,format=raw",
      "size=1G",
    ])
      expect([text, parseDrive("scsi0", text)]).toEqual([text, undefined]);
    expect(parseDrive("virtio0", "none,media=cdrom")).toBeUndefined();
    expect(parseDrive("cores", "x")).toBeUndefined();
    expect(() => requireDrive("scsi0", "")).toThrow("unable to parse drive options for 'scsi0'");
    expect(() => printDrive("floppy0", { file: "x" })).toThrow("invalid drive key: floppy0");
  });

  it("tells kinds of drives apart and walks them in order", () => {
    const values = {
      virtio0: "l1:v",
      scsi0: "l1:s",
      ide2: "l1:vm-1-cloudinit,media=cdrom",
      ide0: "none,media=cdrom",
      sata0: "???",
    };
    expect(listDrives(values).map(({ key }) => key)).toEqual(["ide0", "ide2", "scsi0", "virtio0"]);
    expect(listDisks(values).map(({ key }) => key)).toEqual(["scsi0", "virtio0"]);
    expect(findCloudinitDrive(values)).toBe("ide2");
    expect(isCdrom({ file: "l1:vm-1-cloudinit", media: "cdrom" }, true)).toBe(false);
    expect([driveFile("l1:x,size=1"), driveFile("size=1,volume=l1:y"), driveFile("size=1")]).toEqual([
      "l1:x",
      "l1:y",
      undefined,
    ]);
  });

  it.each([
    ["mbps_max=2", false],
    ["mbps=1,mbps_max=2", true],
    ["mbps_rd=1,mbps_rd_max=2,bps_rd_max_length=3", true],
    ["mbps_wr=1,bps_wr_max_length=3", false],
    ["iops_max=5", true],
    ["iops_max_length=5", false],
    ["iops_wr_max=5,iops_wr_max_length=5", true],
    ["iops=1,iops_rd=1", false],
    ["mbps=1,mbps_wr=0", true],
    ["media=cdrom", true],
    ["media=cdrom,snapshot=0", true],
    ["media=cdrom,snapshot=1", false],
    ["media=cdrom,trans=lba", false],
    ["media=cdrom,cyls=1", false],
    ["media=cdrom,heads=1", false],
    ["media=cdrom,secs=1", false],
    ["media=cdrom,format=raw", false],
  ])("a drive of PVE with %s is one: %s", (options, valid) => {
    expect(parseDrive("sata0", `l1:x,${options}`) !== undefined).toBe(valid);
  });

  it("keeps detached disks as unused, once", () => {
    expect(detachDrive({ scsi0: "l1:x,size=1G", unused0: "l1:y" }, "scsi0")).toEqual({
      unused0: "l1:y",
      unused1: "l1:x",
    });
    expect(detachDrive({ ide2: "none,media=cdrom" }, "ide2")).toEqual({});
    expect(detachDrive({ a: "b" }, "scsi0")).toEqual({ a: "b" });
    expect(addUnused({ unused3: "l1:x" }, "l1:x")).toEqual({ unused3: "l1:x" });
    expect(addUnused({}, "l1:vm-1-cloudinit")).toEqual({});
    const full = Object.fromEntries(
      Array.from({ length: 256 }, (_, index) => [`unused${index}`, `l1:${index}`]),
    );
    expect(() => addUnused(full, "l1:x")).toThrow("Too many unused volumes");
  });
});

describe("hotplug", () => {
  it("knows the class of every kind of key", () => {
    expect(hotplugClass("name")).toBe("immediate");
    expect(hotplugClass("ipconfig3")).toBe("immediate");
    expect(hotplugClass("net0")).toEqual({ feature: "network" });
    expect(hotplugClass("cores")).toBe("pending");
    expect(hotplugClass("numa0")).toBe("pending");
    expect(hotplugClass("vcpus")).toEqual({ feature: "cpu" });
  });

  it("decides how a drive's change reaches the guest", () => {
    const disk = { file: "l1:x" };
    const cd = { file: "none", media: "cdrom" } as const;
    expect(driveChange("scsi0", undefined, disk)).toBe("plug");
    expect(driveChange("virtio0", disk, undefined)).toBe("unplug");
    expect(driveChange("ide0", undefined, disk)).toBe("pending");
    expect(driveChange("efidisk0", disk, undefined)).toBe("pending");
    expect(driveChange("scsi0", undefined, undefined)).toBe("none");
    expect(driveChange("net0", disk, disk)).toBe("pending");
    expect(driveChange("scsi0", disk, { file: "l1:y" })).toBe("replug");
    expect(driveChange("sata0", disk, { file: "l1:y" })).toBe("pending");
    expect(driveChange("scsi0", disk, { ...disk, mbps: 5 })).toBe("live");
    expect(driveChange("scsi0", disk, { ...disk, cache: "none" })).toBe("pending");
    expect(driveChange("scsi0", disk, { ...disk })).toBe("none");
    expect(driveChange("ide2", cd, { ...cd, file: "l1:iso/x" })).toBe("media");
    expect(driveChange("ide2", cd, cd)).toBe("none");
    expect(driveChange("ide2", cd, disk)).toBe("pending");
  });

  it("decides how a NIC's change reaches the guest", () => {
    const net = { model: "virtio", bridge: "vmbr0" };
    expect(netChange(undefined, net)).toBe("plug");
    expect(netChange(net, undefined)).toBe("unplug");
    expect(netChange(undefined, undefined)).toBe("none");
    expect(netChange(net, { ...net, bridge: "vmbr1" })).toBe("live");
    expect(netChange(net, { ...net, model: "e1000" })).toBe("replug");
    expect(netChange(net, { ...net })).toBe("none");
  });
});
