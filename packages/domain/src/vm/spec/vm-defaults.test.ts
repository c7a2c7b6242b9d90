import { expect, test } from "vitest";
import { machineDefaults, usableDefaults, withDiskStorage, withVmDefaults } from "./vm-defaults.ts";

const defaults = { machine: "q35", cpu: "host", bridge: "vmbr1" };

test("a new VM gets what it does not say itself", () => {
  expect(withVmDefaults({ net0: "virtio", net1: "e1000,bridge=vmbr0" }, defaults)).toEqual({
    machine: "q35",
    cpu: "host",
    net0: "virtio,bridge=vmbr1",
    net1: "e1000,bridge=vmbr0",
  });
  expect(withVmDefaults({ machine: "pc", cpu: "kvm64" }, defaults)).toEqual({ machine: "pc", cpu: "kvm64" });
  expect(withVmDefaults({ net0: "virtio" }, {})).toEqual({ net0: "virtio" });
  expect(machineDefaults({}, defaults)).toEqual({ machine: "q35", cpu: "host" });
});

test("names of one architecture are not for another", () => {
  expect(machineDefaults({ arch: "aarch64" }, defaults)).toEqual({});
});

test("a VM that is there keeps what it got, and gets nothing new", () => {
  const got = { machine: "q35", cpu: "host", net0: "virtio=AA,bridge=vmbr1" };
  expect(withVmDefaults({ net0: "virtio=AA" }, defaults, got)).toEqual(got);
  const older = { net0: "virtio=AA" };
  expect(withVmDefaults({ net0: "virtio=AA" }, defaults, older)).toEqual(older);
  expect(withVmDefaults({ net1: "virtio" }, defaults, older)).toEqual({ net1: "virtio,bridge=vmbr1" });
});

test("this machine's own processor is for guests that KVM runs", () => {
  expect(usableDefaults(defaults, "tcg")).toEqual({ machine: "q35", bridge: "vmbr1" });
  expect(usableDefaults(defaults, "kvm")).toBe(defaults);
  expect(usableDefaults({ cpu: "kvm64" }, "tcg")).toEqual({ cpu: "kvm64" });
});

test("a new disk goes to the default storage, and one that is there stays", () => {
  const spec = {
    disks: [
      { name: "scsi0", size: "1Gi" },
      { name: "scsi1", volume: "a:b" },
    ],
  };
  expect(withDiskStorage(spec, "fast").disks).toEqual([
    { name: "scsi0", size: "1Gi", storage: "fast" },
    { name: "scsi1", volume: "a:b" },
  ]);
  const current = { disks: [{ name: "scsi0", storage: "slow" }] };
  expect(withDiskStorage(spec, "fast", current).disks?.[0]?.["storage"]).toBe("slow");
  expect(withDiskStorage(spec, undefined)).toEqual(spec);
  expect(withDiskStorage({}, "fast")).toEqual({});
});
