import { describe, expect, test } from "vitest";
import type { StorageDefinition } from "../../storage/definition.ts";
import { parseVmConfig } from "../config/parse-config.ts";
import {
  localResources,
  localVolumes,
  mappedResources,
  obstaclesAt,
  requireMovable,
  usedVolumes,
  type MoveTarget,
} from "./movable.ts";
import { mapStorage, parseStorageMap } from "./storage-map.ts";

const definitions: readonly StorageDefinition[] = [
  { storage: "local", type: "dir", options: { path: "/l" } },
  { storage: "shared", type: "dir", options: { path: "/s", shared: true } },
  { storage: "some", type: "dir", options: { path: "/t", nodes: "n1", shared: true } },
  { storage: "off", type: "nfs", options: { disable: true } },
];
const config = (...lines: string[]) =>
  parseVmConfig(`${lines.join("\n")}\n`, { vmid: 100, digestOf: () => "" });
const n2: MoveTarget = {
  node: "n2",
  isOnline: true,
  storages: new Set(["local", "shared"]),
  bridges: ["vmbr0"],
  freeMemory: 4 * 1024 ** 3,
  accelerator: "kvm",
};
const stopped = { definitions, isRunning: false };
const running = { definitions, isRunning: true, accelerator: "kvm" };

const full = config(
  "scsi0: shared:100/vm-100-disk-0.qcow2,size=1G",
  "scsi1: local:100/vm-100-disk-1.raw,size=2G",
  "ide2: local:iso/a.iso,media=cdrom",
  "ide0: local:100/vm-100-cloudinit.qcow2,media=cdrom",
  "unused0: local:100/vm-100-disk-2.raw",
  "memory: 1024",
  "net0: virtio=BC:24:11:00:00:01,bridge=vmbr0",
  "[snap]",
  "scsi0: shared:100/vm-100-disk-0.qcow2,size=1G",
  "scsi2: local:100/vm-100-disk-3.raw,size=3G",
  "vmstate: local:100/vm-100-state-snap.raw",
);

describe("volumes of a VM", () => {
  test("are found in every section, each once", () => {
    expect(usedVolumes(full).map(({ key, isCurrent, isCdrom }) => [key, isCurrent, isCdrom])).toEqual([
      ["ide0", true, false],
      ["ide2", true, true],
      ["scsi0", true, false],
      ["scsi1", true, false],
      ["unused0", true, false],
      ["scsi2", false, false],
      ["vmstate", false, false],
    ]);
    expect(localVolumes(full, definitions).map(({ key }) => key)).not.toContain("scsi0");
  });
});

describe("devices of the node", () => {
  test("bind a VM, and one that is stopped unless they are mapped or it is forced", () => {
    const values = {
      hostpci0: "0000:01:00.0",
      hostpci1: "mapping=gpu",
      usb0: "spice",
      usb1: "host=1234:5678",
      serial0: "socket",
      serial1: "/dev/ttyS0",
      parallel0: "/dev/parport0",
      virtiofs0: "share",
    };
    expect(localResources(values)).toEqual([
      "hostpci0",
      "hostpci1",
      "parallel0",
      "serial1",
      "usb1",
      "virtiofs0",
    ]);
    expect(mappedResources(values)).toEqual([
      { key: "hostpci1", type: "pci", id: "gpu" },
      { key: "virtiofs0", type: "dir", id: "share" },
    ]);
    expect(obstaclesAt(config("usb1: host=1234:5678"), n2, running).reasons).toEqual([
      "it uses devices of its node (usb1): stop it first, or take them away",
    ]);
    const own = config("usb1: host=1234:5678", "hostpci0: mapping=gpu", "serial0: /dev/ttyS0");
    expect(obstaclesAt(own, n2, stopped).reasons).toEqual([
      "can't migrate VM which uses local devices: serial0, usb1",
    ]);
    expect(obstaclesAt(own, n2, { ...stopped, isForced: true }).reasons).toEqual([]);
    expect(obstaclesAt(config("hostpci0: mapping=gpu"), n2, stopped).reasons).toEqual([]);
  });
});

describe("a node", () => {
  test("takes a VM whose storages, bridge and memory it has", () => {
    expect(obstaclesAt(full, n2, stopped)).toEqual({ storages: [], resources: [], reasons: [] });
    expect(obstaclesAt(full, n2, running)).toEqual({ storages: [], resources: [], reasons: [] });
    expect(() => requireMovable(full, n2, running)).not.toThrow();
  });

  test("says all that it lacks", () => {
    const vm = config(
      "scsi0: some:100/vm-100-disk-0.raw",
      "scsi1: off:100/vm-100-disk-1.raw",
      "scsi2: gone:100/vm-100-disk-2.raw",
      "memory: 8192",
      "net0: virtio=BC:24:11:00:00:01,bridge=vmbr7",
    );
    const { storages, reasons } = obstaclesAt(vm, { ...n2, accelerator: "tcg" }, running);
    expect(storages).toEqual(["some", "off", "gone"]);
    expect(reasons.join("\n")).toBe(
      [
        "scsi0 (some:100/vm-100-disk-0.raw): storage 'some' is not available on node 'n2': its 'nodes' do not name it",
        "scsi1 (off:100/vm-100-disk-1.raw): storage 'off' is disabled",
        "scsi2 (gone:100/vm-100-disk-2.raw): storage 'gone' does not exist",
        "net0: node 'n2' has no bridge 'vmbr7'",
        "it needs 8192 MiB of memory; node 'n2' has 4096 MiB free",
        "it runs under kvm; guests of node 'n2' run under tcg",
      ].join("\n"),
    );
    expect(() => requireMovable(vm, n2, stopped)).toThrow("cannot move the VM to node 'n2'");
  });

  test("that is away takes nothing", () => {
    expect(obstaclesAt(full, { ...n2, isOnline: false, storages: new Set() }, stopped).reasons).toEqual([
      "node 'n2' is not online",
    ]);
    expect(obstaclesAt(full, { ...n2, storages: new Set(["shared"]) }, stopped).storages).toEqual(["local"]);
  });

  test("is asked for the storages that volumes go to", () => {
    const storageMap = parseStorageMap("local:shared");
    expect(
      obstaclesAt(full, { ...n2, storages: new Set(["shared"]) }, { ...stopped, storageMap }).reasons,
    ).toEqual([]);
  });
});

describe("targetstorage", () => {
  test("is read as PVE reads it", () => {
    expect(parseStorageMap("1")).toEqual({ identity: true, entries: new Map() });
    expect(mapStorage(parseStorageMap("1"), "a")).toBe("a");
    expect(mapStorage(parseStorageMap("x,a:b"), "a")).toBe("b");
    expect(mapStorage(parseStorageMap("x,a:b"), "c")).toBe("x");
  });

  test.each([
    ["a:b:c", "entry 'a:b:c' contains invalid ID"],
    ["x,y", "default target ID can only be provided once"],
    ["a:b,a:c", "duplicate mapping for source 'a'"],
    ["a:", "entry 'a:' contains invalid ID"],
    ["1,a:b", "identity mapping cannot be combined with other mappings"],
    ["1,x", "identity mapping cannot be combined with other mappings"],
  ])("%s is refused", (text, why) => {
    expect(() => parseStorageMap(text)).toThrow(
      expect.objectContaining({ errors: { targetstorage: `failed to parse storage map: ${why}` } }),
    );
  });
});
