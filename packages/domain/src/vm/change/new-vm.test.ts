import { describe, expect, it } from "vitest";
import { cloneValues, newVmValues } from "./new-vm.ts";

const UUID = "11111111-1111-4111-8111-111111111111";
const facts = { newUuid: () => UUID, newMac: () => "BC:24:11:00:00:09", qemuVersion: "10.1.2", now: 1000 };

describe("a new VM", () => {
  it("gets an identity, MAC addresses and a boot order", () => {
    expect(newVmValues({ net0: "virtio,bridge=vmbr0", scsi0: "l1:x" }, facts)).toEqual({
      boot: "order=scsi0;net0",
      meta: "creation-qemu=10.1.2,ctime=1000",
      net0: "virtio=BC:24:11:00:00:09,bridge=vmbr0",
      scsi0: "l1:x",
      smbios1: `uuid=${UUID}`,
      vmgenid: UUID,
    });
  });

  it("keeps what the client gave", () => {
    const given = {
      boot: "order=net0",
      net0: "virtio=BC:24:11:00:00:01",
      smbios1: "serial=abc,uuid=21a7e7bc-3cd2-4232-a009-a41f4ee992ae",
      vmgenid: "0",
    };
    expect(newVmValues(given, facts)).toMatchObject(given);
    expect(newVmValues({}, { ...facts, qemuVersion: "0" })["meta"]).toMatch(/^ctime=\d+$/);
    expect(newVmValues({ smbios1: "serial=abc", vmgenid: "1" }, facts)).toMatchObject({
      smbios1: "serial=abc",
      vmgenid: UUID,
      boot: "",
    });
  });
});

describe("a clone", () => {
  it("has its own identity and none of the original's history", () => {
    const original = {
      cores: "2",
      lock: "clone",
      name: "web",
      net0: "virtio=BC:24:11:00:00:01,bridge=vmbr0",
      parent: "s1",
      smbios1: "uuid=21a7e7bc-3cd2-4232-a009-a41f4ee992ae",
      template: "1",
      unused0: "l1:u",
      vmgenid: "21a7e7bc-3cd2-4232-a009-a41f4ee992ae",
    };
    expect(cloneValues(original, { ...facts, vmid: 100 })).toEqual({
      cores: "2",
      name: "Copy-of-VM-web",
      net0: "virtio=BC:24:11:00:00:09,bridge=vmbr0",
      smbios1: `uuid=${UUID}`,
      vmgenid: UUID,
    });
    expect(cloneValues({}, { ...facts, vmid: 100 })).toEqual({
      name: "Copy-of-VM-100",
      smbios1: `uuid=${UUID}`,
    });
    expect(cloneValues({ vmgenid: "0" }, { ...facts, vmid: 100, name: "x" })).toEqual({
      name: "x",
      smbios1: `uuid=${UUID}`,
      vmgenid: "0",
    });
    expect(newVmValues({ arch: "aarch64" }, { ...facts, arch: "aarch64" })).not.toHaveProperty("vmgenid");
  });
});
