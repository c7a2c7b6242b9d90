import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { createMappingChecks } from "../../application/devices/check-mappings.ts";
import { listMdevTypes } from "./mdev-types.ts";
import { listPciDevices } from "./pci-devices.ts";
import { SysfsDevices } from "./sysfs-devices.ts";
import { listUsbDevices, pathKind } from "./usb-devices.ts";

const GPU = "0000:01:00.0";
const UUID = "00000000-0000-0000-0000-000000000100";
const noModules: Exec = async () => Promise.reject(new AppError("internal.error", "no modprobe"));

let sys: string;
let devices: SysfsDevices;
beforeEach(() => {
  sys = mkdtempSync(join(tmpdir(), "gpve-sysfs-"));
  devices = new SysfsDevices({ exec: noModules, sys, dev: "/dev" });
});
afterEach(() => rmSync(sys, { recursive: true, force: true }));

const put = (path: string, text = ""): void => {
  mkdirSync(dirname(join(sys, path)), { recursive: true });
  writeFileSync(join(sys, path), text);
};
const folder = (path: string): string => mkdirSync(join(sys, path), { recursive: true }) ?? "";
const text = (path: string): string => readFileSync(join(sys, path), "utf8");

function withGpu(): void {
  put(`bus/pci/devices/${GPU}/vendor`, "0x10de\n");
  put(`bus/pci/devices/${GPU}/driver_override`);
  put(`bus/pci/devices/${GPU}/driver/unbind`);
  put(`bus/pci/devices/${GPU}/reset`);
  put("bus/pci/drivers_probe");
  folder(`kernel/iommu_groups/12/devices/${GPU}`);
  symlinkSync(join(sys, "kernel/iommu_groups/12"), join(sys, `bus/pci/devices/${GPU}/iommu_group`));
  folder("class/iommu/dmar0");
}

describe("a device that speaks SCSI", () => {
  it("says what it is", () => {
    expect(devices.scsiKind("/dev/null")).toBeUndefined();
    put("dev/char/1:3/device/type", "1\n");
    expect(devices.scsiKind("/dev/null")).toBe("tape");
    put("dev/char/1:3/device/type", "0\n");
    expect(devices.scsiKind("/dev/null")).toBe("disk");
    put("dev/char/1:3/device/type", "5\n");
    expect(devices.scsiKind("/dev/null")).toBeUndefined();
    expect(devices.scsiKind("/dev/gpve-none")).toBeUndefined();
    expect(devices.scsiKind(sys)).toBeUndefined();
  });
});

describe("PCI devices", () => {
  it("are not taken where the host cannot isolate them", async () => {
    expect(await devices.takePci([])).toEqual([]);
    await expect(devices.takePci([GPU])).rejects.toThrow(
      "cannot prepare PCI pass-through, IOMMU not present",
    );
    folder("class/iommu/dmar0");
    await expect(devices.takePci([GPU])).rejects.toThrow(`no pci device info for device '${GPU}'`);
    withGpu();
    await expect(devices.takePci([GPU])).rejects.toThrow("Cannot find vfio-pci module!");
  });

  it("go to vfio with their whole group, but for bridges", async () => {
    withGpu();
    folder("bus/pci/drivers/vfio-pci");
    folder("kernel/iommu_groups/12/devices/0000:00:1c.0");
    folder("bus/pci/devices/0000:00:1c.0/pci_bus");
    // A kernel would bind it; this one only takes notes.
    await expect(devices.takePci([GPU])).rejects.toThrow(`Cannot bind ${GPU} to vfio`);
    expect(text(`bus/pci/devices/${GPU}/driver_override`)).toBe("vfio-pci");
    expect(text(`bus/pci/devices/${GPU}/driver/unbind`)).toBe(GPU);
    expect(text("bus/pci/drivers_probe")).toBe(GPU);
    folder(`bus/pci/drivers/vfio-pci/${GPU}`);
    expect(await devices.takePci([GPU])).toEqual(["/dev/vfio/vfio", "/dev/vfio/12"]);
    expect(text(`bus/pci/devices/${GPU}/reset`)).toBe("1");
  });

  it("are divided where they have room, and put together again", async () => {
    const type = `bus/pci/devices/${GPU}/mdev_supported_types/nvidia-1`;
    await expect(devices.makeMdev([GPU], UUID, "nvidia-1")).rejects.toThrow("IOMMU");
    withGpu();
    await expect(devices.makeMdev([], UUID, "nvidia-1")).rejects.toThrow("no device for");
    await expect(devices.makeMdev([GPU], UUID, "nvidia-1")).rejects.toThrow(
      "does not support mediated devices",
    );
    put(`${type}/available_instances`, "0\n");
    put(`${type}/name`, "GRID\n");
    put(`${type}/create`);
    await expect(devices.makeMdev([GPU], UUID, "other")).rejects.toThrow(
      `pci device '${GPU}' has no type 'other'`,
    );
    await expect(devices.makeMdev([GPU], UUID, "nvidia-1")).rejects.toThrow(
      "has no available instances of 'nvidia-1'",
    );
    put(`${type}/available_instances`, "2\n");
    expect(listMdevTypes(GPU, sys)).toEqual([
      { type: "nvidia-1", available: 2, description: "", name: "GRID" },
    ]);
    folder(`bus/mdev/devices/${UUID}`);
    put(`bus/mdev/devices/${UUID}/remove`);
    symlinkSync(join(sys, "kernel/iommu_groups/12"), join(sys, `bus/mdev/devices/${UUID}/iommu_group`));
    expect(await devices.makeMdev(["0000:09:00.0", GPU], UUID, "nvidia-1")).toBe("/dev/vfio/12");
    expect(text(`${type}/create`)).toBe(UUID);
    await devices.removeMdev(UUID);
    await devices.removeMdev("not-there");
    expect(text(`bus/mdev/devices/${UUID}/remove`)).toBe("1");
    folder(`bus/pci/devices/${GPU}/${UUID}`);
    symlinkSync(join(sys, type), join(sys, `bus/pci/devices/${GPU}/${UUID}/mdev_type`));
    expect(await devices.makeMdev([GPU], UUID, "nvidia-1")).toBe("/dev/vfio/12");
    folder(`bus/pci/devices/${GPU}/mdev_supported_types/nvidia-2`);
    await expect(devices.makeMdev([GPU], UUID, "nvidia-2")).rejects.toThrow(
      "already exists, but type is not",
    );
    expect(listMdevTypes("0000:09:00.0", sys)).toEqual([]);
  });
});

describe("USB devices", () => {
  beforeEach(() => {
    put("bus/usb/devices/usb1/busnum", "1\n");
    for (const [file, value] of Object.entries({
      busnum: "1",
      devnum: "5",
      bDeviceClass: "ef",
      idVendor: "046d",
      idProduct: "c52b",
      speed: "12",
      product: "Receiver",
    }))
      put(`bus/usb/devices/1-2.3/${file}`, `${value}\n`);
    folder("bus/usb/devices/1-2.3:1.0");
  });

  it("are listed as the kernel has them", () => {
    expect(listUsbDevices(sys)).toEqual([
      {
        busnum: 1,
        devnum: 5,
        class: 0xef,
        vendid: "046d",
        prodid: "c52b",
        speed: "12",
        level: 2,
        port: 2,
        usbpath: "2.3",
        product: "Receiver",
      },
      { busnum: 1, devnum: 0, class: 0, vendid: "", prodid: "", speed: "", level: 0, port: 0 },
    ]);
    expect(listUsbDevices("/nowhere")).toEqual([]);
  });

  it("are reached by kind or place", () => {
    expect(devices.usbFiles("046D:C52B")).toEqual(["/dev/bus/usb/001/005"]);
    expect(devices.usbFiles("0x046d:0xc52b")).toEqual(["/dev/bus/usb/001/005"]);
    expect(devices.usbFiles("1-2.3")).toEqual(["/dev/bus/usb/001/005"]);
    expect(devices.usbFiles("1-9")).toEqual([]);
  });

  it("and other things a mapping names are checked for a server", async () => {
    const host = {
      pciDevices: () => listPciDevices(join(sys, "bus/pci/devices")),
      usbDevices: () => listUsbDevices(sys),
      kindOf: pathKind,
    };
    const { "POST /gpve/nodes/{node}/mapping-checks": check } = createMappingChecks(
      "n1",
      host,
      async (path) => {
        if (path === "/etc") throw new AppError("request.invalid", "it is /etc");
      },
    );
    const faults = async (type: "pci" | "usb" | "dir", ...map: string[]): Promise<unknown> =>
      check({ node: "n1", type, mappings: [{ id: "x", map }] }, undefined as never);
    expect(
      await faults("usb", "node=n1,id=046d:c52b", "node=n1,id=0000:0000", "node=n2,id=0000:0001"),
    ).toEqual([["usb device '0000:0000' not found"]]);
    expect(await faults("pci", `node=n1,path=${GPU},id=10de:1234`)).toEqual([
      [`pci device '${GPU}' not found`],
    ]);
    expect(await faults("dir", `node=n1,path=${sys}`, "node=n1,path=/etc/hostname")).toEqual([
      ["Path /etc/hostname exists, but is not a directory"],
    ]);
    expect(await faults("dir", "node=n1,path=/etc")).toEqual([["it is /etc"]]);
    const mappings = [{ id: "x", map: ["node=n1,path=/nowhere"] }];
    expect(await check({ node: "n1", type: "dir", mappings, onlyPlace: true }, undefined as never)).toEqual([
      [],
    ]);
    expect(existsSync("/nowhere") || pathKind("/nowhere")).toBeUndefined();
  });
});
