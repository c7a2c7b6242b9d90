import { describe, expect, it } from "vitest";
import { checkDirectoryEntry, checkPciEntry, checkUsbEntry, type MappingHost } from "./check-mapping.ts";
import {
  changedMapping,
  entriesOn,
  mappingCollection,
  mappingsOn,
  newMapping,
  readEntry,
} from "./mapping.ts";

const GPU = "node=n1,path=0000:01:00,id=10de:1234,subsystem-id=1043:0001,iommugroup=12";

describe("a mapping", () => {
  it("must have entries that can be read", () => {
    expect(newMapping("pci", "gpu", { map: [GPU], mdev: true })).toEqual({
      type: "pci",
      id: "gpu",
      map: [GPU],
      mdev: true,
    });
    expect(() => newMapping("usb", "key", {})).toThrow("missing value for required option 'map'");
    expect(() => newMapping("usb", "key", { map: ["node=n1,id=zz"] })).toThrow("format error");
    const twice = ["node=n1,path=/a", "node=n1,path=/b"];
    expect(() => newMapping("dir", "share", { map: twice })).toThrow("Node 'n1' is specified 2 times.");
    expect(newMapping("pci", "gpu", { map: [GPU, GPU.replace("01:00", "02:00")] }).map).toHaveLength(2);
  });

  it("is changed by key; what is required stays", () => {
    const before = newMapping("pci", "gpu", { map: [GPU], mdev: true, description: "a" });
    const map = [GPU];
    expect(changedMapping(before, { map, description: "b" }, ["mdev"])).toEqual({
      type: "pci",
      id: "gpu",
      map,
      description: "b",
    });
    expect(() => changedMapping(before, { map }, ["map"])).toThrow("unable to delete required option 'map'");
    expect(() => changedMapping(before, { map }, ["nope"])).toThrow("no such option 'nope'");
    expect(() => changedMapping(before, { map, mdev: true }, ["mdev"])).toThrow(
      "cannot set and delete property 'mdev' at the same time!",
    );
  });

  it("means something else on every node", () => {
    const usb = newMapping("usb", "key", { map: ["node=n1,id=046d:c52b", "node=n2,id=046d:c52b,path=1-2"] });
    const dir = newMapping("dir", "share", { map: ["node=n2,path=/srv/share"] });
    const pci = newMapping("pci", "gpu", { map: [GPU], "live-migration-capable": true });
    expect(entriesOn(usb, "n2")).toMatchObject([{ path: "1-2" }]);
    expect(entriesOn({ ...usb, map: ["nonsense"] }, "n2")).toEqual([]);
    expect(mappingsOn([usb, dir, pci], "n1")).toEqual({
      pciMappings: { gpu: { paths: ["0000:01:00"], liveMigrationCapable: true } },
      usbMappings: { key: [{ id: "046d:c52b" }] },
      directories: new Map(),
    });
    expect(mappingsOn([usb, dir], "n2")).toMatchObject({
      usbMappings: { key: [{ path: "1-2" }] },
      directories: new Map([["share", "/srv/share"]]),
    });
  });

  it("is stored as it is, and refused in a shape of the future", () => {
    const mapping = newMapping("dir", "share", { map: ["node=n1,path=/srv"] });
    expect(mappingCollection.decode(mappingCollection.encode(mapping))).toEqual(mapping);
    expect(() => mappingCollection.decode({ type: "moon" })).toThrow("shape");
  });
});

describe("a check of a mapping", () => {
  const host: MappingHost = {
    pciDevices: () => [
      {
        id: "0000:01:00.0",
        vendor: "0x10de",
        device: "0x1234",
        subsystem_vendor: "0x1043",
        subsystem_device: "0x0001",
        iommugroup: 12,
      },
      { id: "0000:02:00.0", vendor: "0x8086", device: "0x0001", iommugroup: -1 },
    ],
    usbDevices: () => [{ busnum: 1, usbpath: "2", vendid: "046d", prodid: "c52b" }],
    kindOf: (path) => (path === "/srv" ? "directory" : path === "/file" ? "other" : undefined),
  };
  const pci = (text: string): string | undefined => checkPciEntry("gpu", readEntry("pci", text), host);
  const usb = (text: string): string | undefined => checkUsbEntry("key", readEntry("usb", text), host);

  it("compares a PCI device with what is expected there", () => {
    expect(pci(GPU)).toBeUndefined();
    expect(pci(GPU.replace("01:00", "05:00"))).toBe("pci device '0000:05:00.0' not found");
    expect(pci(GPU.replace("10de:1234", "10de:9999"))).toBe(
      "'id' does not match for 'gpu' (10de:1234 != 10de:9999)",
    );
    expect(pci(GPU.replace("iommugroup=12", "iommugroup=1"))).toBe(
      "'iommugroup' does not match for 'gpu' (12 != 1)",
    );
    expect(pci(GPU.replace(",subsystem-id=1043:0001", ""))).toBe(
      "missing expected property 'subsystem-id' for device '0000:01:00.0'",
    );
    expect(pci("node=n1,path=0000:02:00.0,id=8086:0001,iommugroup=-1,subsystem-id=0000:0000")).toBe(
      "unexpected property 'subsystem-id' configured for device '0000:02:00.0'",
    );
    expect(pci("node=n1,path=0000:02:00.0;0000:02:00.0,id=8086:0001,iommugroup=-1")).toBeUndefined();
  });

  it("finds a USB device by its place or its kind", () => {
    expect(usb("node=n1,id=046d:c52b")).toBeUndefined();
    expect(usb("node=n1,id=046d:0000")).toBe("usb device '046d:0000' not found");
    expect(usb("node=n1,id=046d:c52b,path=1-2")).toBeUndefined();
    expect(usb("node=n1,id=046d:0000,path=1-2")).toBe(
      "'id' does not match for 'key' (046d:c52b != 046d:0000)",
    );
    expect(usb("node=n1,id=046d:c52b,path=1-9")).toBe("usb device '1-9' not found");
  });

  it("looks for a directory", () => {
    const dir = (path: string): string | undefined => checkDirectoryEntry({ node: "n1", path }, host);
    expect(dir("/srv")).toBeUndefined();
    expect(dir("/none")).toBe("Path /none does not exist");
    expect(dir("/file")).toBe("Path /file exists, but is not a directory");
  });
});
