import { describe, expect, it } from "vitest";
import { privilegesForChange, rootOnlyError, type KeyChange } from "./change-privileges.ts";
import { keyPrivileges } from "./key-privileges.ts";
import { keyKind, vmKeySchemas } from "../config/keys.ts";

function needs(key: string, change: Omit<KeyChange, "vmid"> = {}): string[] {
  const result = privilegesForChange(key, { vmid: 100, ...change });
  if (result.kind === "root-only") return [result.message];
  return result.needs.map(
    ({ path, privileges, mode }) => `${path} ${privileges.join(mode === "any" ? "|" : "+")}`,
  );
}

describe("privileges of a change", () => {
  it("has rows only for keys that exist", () => {
    const kinds = new Set(Object.keys(vmKeySchemas).map((key) => keyKind(key.replace("[n]", "0"))));
    const unknown = Object.keys(keyPrivileges).filter((kind) => !kinds.has(kind) && kind !== "tags");
    expect(unknown).toEqual([]);
  });

  it("follows the table", () => {
    expect(needs("cores", { value: "2" })).toEqual(["/vms/100 VM.Config.CPU"]);
    expect(needs("numa0")).toEqual(["/vms/100 VM.Config.CPU"]);
    expect(needs("memory")).toEqual(["/vms/100 VM.Config.Memory"]);
    expect(needs("ciuser")).toEqual(["/vms/100 VM.Config.Cloudinit|VM.Config.Network"]);
    expect(needs("vmstate")).toEqual(["/vms/100 VM.Config.Disk+VM.PowerMgmt"]);
    expect(needs("startup")).toEqual(["/vms/100 VM.Config.Options", "/ Sys.Modify"]);
    expect(needs("args", { value: "x" })).toEqual(["only root can set 'args' config"]);
    expect(needs("valueOf")).toEqual(["only root can set 'valueOf' config"]);
    expect(needs("parallel0")).toEqual(["only root can set 'parallel0' config"]);
  });

  it("looks into values that name something else", () => {
    expect(needs("net0", { value: "virtio,bridge=vmbr0" })).toEqual([
      "/vms/100 VM.Config.Network",
      "/sdn/zones/localnetwork/vmbr0 SDN.Use",
    ]);
    expect(needs("net0", { value: "virtio,bridge=v1,tag=5,trunks=7-8", zoneOf: () => "z1" })).toEqual([
      "/vms/100 VM.Config.Network",
      "/sdn/zones/z1/v1/5 SDN.Use",
      "/sdn/zones/z1/v1/7 SDN.Use",
      "/sdn/zones/z1/v1/8 SDN.Use",
    ]);
    expect(needs("net0", { value: "virtio" })).toHaveLength(1);
    expect(needs("net0", {})).toHaveLength(1);
    // What is let go of counts, too.
    expect(needs("net0", { oldValue: "virtio,bridge=vmbr1" })[1]).toBe(
      "/sdn/zones/localnetwork/vmbr1 SDN.Use",
    );
    expect(needs("net0", { oldValue: "virtio,bridge=vmbr1", value: "e1000,bridge=vmbr1" })).toHaveLength(2);
    expect(needs("rng0", { oldValue: "/dev/hwrng", value: "/dev/urandom" })).toHaveLength(2);
    expect(needs("virtiofs0", { oldValue: "share1", value: "share2" })).toHaveLength(3);
    expect(needs("cpu", { oldValue: "custom-mine", value: "custom-mine,flags=+aes" })).toHaveLength(1);
    expect(needs("virtiofs0", { value: "share1" })[1]).toBe("/mapping/dir/share1 Mapping.Use");
    expect(needs("cpu", { value: "custom-mine" })[1]).toBe("/mapping/cpu/mine Mapping.Use");
    expect(needs("cpu", { value: "host" })).toHaveLength(1);
    expect(needs("rng0", { value: "/dev/hwrng" })[1]).toBe("/mapping/hwrng Mapping.Use");
    expect(needs("rng0", { value: "/dev/urandom" })).toHaveLength(1);
  });

  it("tells disks, CD drives and cloud-init drives apart", () => {
    expect(needs("scsi0", { value: "local:5" })).toEqual(["/vms/100 VM.Config.Disk"]);
    expect(needs("ide2", { value: "none,media=cdrom" })).toEqual(["/vms/100 VM.Config.CDROM"]);
    expect(needs("ide2", { value: "cdrom" })).toEqual(["/vms/100 VM.Config.CDROM", "/ Sys.Console"]);
    expect(needs("ide2", { value: "local:cloudinit" })).toEqual([
      "/vms/100 VM.Config.CDROM",
      "/vms/100 VM.Config.Cloudinit",
    ]);
    expect(needs("scsi1", { oldValue: "none,media=cdrom", value: "local:5" })).toEqual([
      "/vms/100 VM.Config.CDROM",
      "/vms/100 VM.Config.Disk",
    ]);
  });

  it("keeps real devices for root", () => {
    expect(needs("serial0", { value: "socket" })).toEqual(["/vms/100 VM.Config.HWType"]);
    expect(needs("serial0", { value: "/dev/ttyS0", isNew: true })).toEqual([
      "only root can set 'serial0' config for real devices",
    ]);
    expect(needs("serial0", { value: "/dev/ttyS0" })).toEqual([
      "only root can modify 'serial0' config for real devices",
    ]);
    expect(needs("serial0", { oldValue: "/dev/ttyS0" })).toEqual([
      "only root can delete 'serial0' config for real devices",
    ]);
    expect(needs("usb0", { oldValue: "spice", value: "host=1-2" })).toEqual([
      "only root can set 'usb0' config for real devices",
    ]);
    expect(needs("usb0", { value: "spice" })).toEqual(["/vms/100 VM.Config.HWType"]);
    expect(needs("usb0", { value: "mapping=stick" })).toEqual([
      "/vms/100 VM.Config.HWType",
      "/mapping/usb/stick Mapping.Use",
    ]);
    expect(() => needs("usb0", { value: "usb3=1" })).toThrow("either 'host' or 'mapping' must be set.");
    expect(needs("hostpci0", { value: "01:00.0" })).toEqual([
      "only root can set 'hostpci0' config for non-mapped devices",
    ]);
    expect(needs("hostpci0", { value: "mapping=gpu" })[0]).toBe("/mapping/pci/gpu Mapping.Use");
    const rom = privilegesForChange("hostpci0", { vmid: 100, value: "mapping=gpu,romfile=x" });
    expect(rom).toMatchObject({ kind: "root-only", needs: [{ path: "/mapping/pci/gpu" }, {}] });
    expect(rom.kind === "root-only" && rootOnlyError(rom)).toMatchObject({
      errors: { hostpci0: "only root@pam can set 'romfile' option" },
    });
    expect(() => needs("hostpci0", { value: "pcie=1" })).toThrow("either 'host' or 'mapping' must be set.");
    expect(rootOnlyError({ kind: "root-only", message: "no" }).pveStatus).toBe(500);
  });
});
