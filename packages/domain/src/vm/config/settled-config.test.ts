import { describe, expect, it } from "vitest";
import { settledConfig } from "./settled-config.ts";

const settle = (wanted: string, current: string, key: string) =>
  settledConfig({ [key]: wanted }, { [key]: current })[key];

describe("a declaration applied again", () => {
  it("leaves what it once asked for", () => {
    const current = {
      boot: "order=scsi0;net0",
      meta: "creation-qemu=7.2.0,ctime=1",
      smbios1: "uuid=3a7f2a1e-0000-4000-8000-000000000001",
      vmgenid: "3a7f2a1e-0000-4000-8000-000000000002",
      name: "web",
      description: "two\nlines\n",
      scsi0: "local:100/vm-100-disk-0.qcow2,size=1G",
      scsi1: "local:100/vm-100-disk-1.qcow2,iothread=1,size=3G",
      ide2: "local:100/vm-100-cloudinit.qcow2,media=cdrom,size=4M",
      ide3: "local:iso/debian.iso,media=cdrom,size=600M",
      efidisk0: "local:100/vm-100-disk-2.qcow2,efitype=4m,size=528K",
      net0: "virtio=BC:24:11:00:00:01,bridge=vmbr0",
      unused0: "local:100/vm-100-disk-9.qcow2",
    };
    const wanted = {
      name: "web",
      description: "two\nlines",
      scsi0: "local:1,format=qcow2",
      scsi1: "local:0,import-from=local:import/disk.qcow2,iothread=1",
      ide2: "local:cloudinit",
      ide3: "local:iso/debian.iso,media=cdrom",
      efidisk0: "local:1,efitype=4m",
      net0: "virtio,bridge=vmbr0",
      vmgenid: "1",
    };
    expect(settledConfig(wanted, current)).toEqual(current);
  });

  it("leaves what is written down otherwise than it was asked for", () => {
    expect(settle("B;a", "a;b", "tags")).toBe("a;b");
    expect(settle("a;c", "a;b", "tags")).toBe("a;c");
    expect(settle("50000", "10000", "cpuunits")).toBe("10000");
    expect(settle("100", "10000", "cpuunits")).toBe("100");
    expect(settle("q35", "pc-q35-9.0", "machine")).toBe("pc-q35-9.0");
    expect(settle("q35,viommu=intel", "pc-q35-9.0", "machine")).toBe("q35,viommu=intel");
    expect(settle("pc", "pc-q35-9.0", "machine")).toBe("pc");
    const windows = { ostype: "win11", machine: "pc-i440fx-9.0" };
    expect(settledConfig({ ostype: "win11" }, windows)).toEqual(windows);
    expect(settledConfig({ ostype: "l26" }, windows)).toEqual({ ostype: "l26" });
  });

  it("changes what it asks for otherwise", () => {
    const disk = "local:100/vm-100-disk-0.qcow2,size=2G";
    expect(settle("local:1,discard=on", disk, "scsi0")).toBe(
      "local:100/vm-100-disk-0.qcow2,discard=on,size=2G",
    );
    expect(settle("other:1", disk, "scsi0")).toBe("other:1");
    expect(settle("local:cloudinit", disk, "scsi0")).toBe("local:cloudinit");
    expect(settle("local:iso/a.iso,media=cdrom", "none,media=cdrom", "ide2")).toBe(
      "local:iso/a.iso,media=cdrom",
    );
    expect(settle("local:1", "local:iso/a.iso,media=cdrom", "ide2")).toBe("local:1");
    expect(settle("nonsense=1,,", disk, "scsi0")).toBe("nonsense=1,,");
    const nic = "virtio=BC:24:11:00:00:01,bridge=vmbr0";
    expect(settle("virtio,bridge=vmbr1", nic, "net0")).toBe("virtio=BC:24:11:00:00:01,bridge=vmbr1");
    expect(settle("e1000,bridge=vmbr0", nic, "net0")).toBe("e1000=BC:24:11:00:00:01,bridge=vmbr0");
    const uuid = "3a7f2a1e-0000-4000-8000-000000000001";
    expect(settle("base64=1,serial=QQ==", `uuid=${uuid}`, "smbios1")).toContain(uuid);
    expect(settle("0", uuid, "vmgenid")).toBe("0");
    expect(settle("4", "2", "cores")).toBe("4");
    expect(settle("b", "a\n", "description")).toBe("b");
    expect(settledConfig({}, { cores: "2", lock: "backup" })).toEqual({ lock: "backup" });
  });

  it("says that disks are not grown", () => {
    expect(() => settle("local:3", "local:100/vm-100-disk-0.qcow2,size=2G", "scsi0")).toThrow(
      "scsi0 has 2G, not 3G",
    );
  });
});
