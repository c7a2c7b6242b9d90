import { expect, it } from "vitest";
import type { MappingHost } from "@gpve/domain/mapping/check-mapping.ts";
import { newMapping } from "@gpve/domain/mapping/mapping.ts";
import { changedHardware } from "./check-mappings.ts";

const host: MappingHost = {
  pciDevices: () => [{ id: "0000:01:00.0", vendor: "0x10de", device: "0x1234", iommugroup: 3 }],
  usbDevices: () => [{ busnum: 1, usbpath: "2", vendid: "046d", prodid: "c52b" }],
  kindOf: () => undefined,
};
const all = [
  newMapping("pci", "gpu", { map: ["node=n1,path=0000:01:00.0,id=10de:1234,iommugroup=3"] }),
  newMapping("pci", "moved", { map: ["node=n1,path=0000:01:00.0,id=10de:9999,iommugroup=3"] }),
  newMapping("pci", "gone", { map: ["node=n1,path=0000:07:00.0,id=10de:1234"] }),
  newMapping("usb", "key", { map: ["node=n1,id=1234:5678"] }),
  newMapping("usb", "port", { map: ["node=n1,path=1-2,id=1234:5678"] }),
];
const fault = (type: "pci" | "usb", id: string, node = "n1"): string | undefined =>
  changedHardware(all, node, { type, id }, host);

it("tells hardware that is another one by now from hardware that may still come", () => {
  expect(fault("pci", "gpu")).toBeUndefined();
  expect(fault("pci", "moved")).toBe("'id' does not match for 'moved' (10de:1234 != 10de:9999)");
  expect(fault("pci", "gone")).toBe("pci device '0000:07:00.0' not found");
  expect(fault("usb", "key")).toBeUndefined();
  expect(fault("usb", "port")).toBe("'id' does not match for 'port' (046d:c52b != 1234:5678)");
});

it("has nothing to say of mappings that are not there, or not here", () => {
  expect(fault("pci", "nothing")).toBeUndefined();
  expect(fault("usb", "gpu")).toBeUndefined();
  expect(fault("pci", "moved", "n2")).toBeUndefined();
});
