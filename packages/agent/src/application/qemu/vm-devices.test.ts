import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Refused } from "../../testing/fake-qmp.ts";
import { VmNode } from "../../testing/vm-world.ts";
import { startFileServers } from "./helpers/virtiofs.ts";
import { PciReservations } from "./start/pci-reservations.ts";
import { mappedDirectory, removeMadeDevices } from "./start/take-devices.ts";

const VM = "/nodes/{node}/qemu/{vmid}" as const;

let node: VmNode;
beforeEach(async () => {
  node = await VmNode.open();
});
afterEach(() => node.close());

const start = async (vmid: number) => (await node.task(`POST ${VM}/status/start`, { vmid })).exitStatus;
const identity = (vmid: number) => ({ smbios1: `uuid=00000000-0000-0000-0000-000000000${vmid}` });

describe("network cards", () => {
  it("keep their guest from starting where firewall=1 cannot be kept", async () => {
    const filtered = new Set<string>();
    Object.assign(node.host.network, {
      filter: async (_vmid: number, tap: string) => {
        if (tap === "tap100i1") throw new Error("firewall=1 cannot be kept: nft is broken");
        filtered.add(tap);
      },
      unfilter: async () => filtered.clear(),
    });
    const card = "virtio=BC:24:11:00:00:01,bridge=vmbr0";
    await node.add(100, { net0: card, net1: `${card},firewall=1`, ...identity(100) });
    expect(await start(100)).toContain("net1: firewall=1 cannot be kept: nft is broken");
    expect(node.guests.starts).toEqual([]);
    expect(filtered.size).toBe(0);
  });
});

describe("PCI devices of the host", () => {
  it("belong to one running VM at a time", async () => {
    await node.add(100, { hostpci0: "0000:01:00", ...identity(100) });
    await node.add(101, { hostpci0: "0000:01:00.1", ...identity(101) });
    expect(await start(100)).toBe("OK");
    const { files, memlock, note } = node.guests.starts.at(-1) ?? {};
    expect(files?.map(({ path }) => path)).toEqual(["/dev/vfio/0000:01:00.0", "/dev/vfio/0000:01:00.1"]);
    expect(memlock).toBe("unlimited");
    expect(note).toMatchObject({ pci: ["0000:01:00.0", "0000:01:00.1"] });
    expect(await start(101)).toBe("PCI device '0000:01:00.1' already in use by VMID '100'");
    await node.guests.get("100")?.stop();
    expect(await start(101)).toBe("OK");
  });

  it("of a mapping are taken in turn, until none is free", async () => {
    node.hostFacts = { pciMappings: { nic: { paths: ["0000:02:00.0", "0000:03:00.0"] } } };
    for (const vmid of [100, 101, 102]) await node.add(vmid, { hostpci0: "mapping=nic", ...identity(vmid) });
    expect(await start(100)).toBe("OK");
    expect(await start(101)).toBe("OK");
    expect(node.guests.starts.map(({ note }) => (note as { pci: string[] }).pci)).toEqual([
      ["0000:02:00.0"],
      ["0000:03:00.0"],
    ]);
    expect(await start(102)).toBe("could not find a free device for 'hostpci0'");
  });

  it("of a mapping are not given when there is something else by now", async () => {
    node.hostFacts = {
      pciMappings: { nic: { paths: ["0000:02:00.0"] } },
      usbMappings: { key: [{ id: "1234:5678", path: "1-2" }] },
    };
    await node.add(100, { hostpci0: "mapping=nic", usb0: "mapping=key", usb1: "spice", ...identity(100) });
    node.changed.set("pci/nic", "'id' does not match for 'nic' (a != b)");
    expect(await start(100)).toBe(
      "PCI device mapping invalid (hardware probably changed): 'id' does not match for 'nic' (a != b)",
    );
    node.changed.delete("pci/nic");
    node.changed.set("usb/key", "'id' does not match for 'key' (a != b)");
    expect(await start(100)).toBe(
      "USB Mapping invalid (hardware probably changed): 'id' does not match for 'key' (a != b)",
    );
    node.changed.clear();
    expect(await start(100)).toBe("OK");
  });

  it("are reserved while a guest starts, and free again when it does not", async () => {
    const pci = new PciReservations(node.guests);
    const release = pci.reserve(["0000:02:00.0"], 100);
    expect(pci.inUse(101)).toEqual(new Set(["0000:02:00.0"]));
    expect(pci.inUse(100).size).toBe(0);
    pci.reserve(["0000:02:00.0"], 100);
    expect(() => pci.reserve(["0000:02:00.0"], 101)).toThrow(
      "PCI device '0000:02:00.0' is currently reserved for use by VMID '100'",
    );
    release();
    release();
    pci.reserve(["0000:02:00.0"], 101)();
    await node.add(100, { hostpci0: "0000:02:00.0", ...identity(100) });
    node.guests.failure = new Error("QEMU said no");
    expect(await start(100)).toBe("start failed: QEMU said no");
    expect(await start(100)).toBe("OK");
  });

  it("are divided for a guest, and whole again after it", async () => {
    await node.add(100, { hostpci1: "0000:02:00.0,mdev=nvidia-1", ...identity(100) });
    node.guests.failure = new Error("QEMU said no");
    expect(await start(100)).toBe("start failed: QEMU said no");
    expect(node.mediated.size).toBe(0);
    expect(await start(100)).toBe("OK");
    expect([...node.mediated]).toEqual(["00000001-0000-0000-0000-000000000100"]);
    expect(node.guests.starts.at(-1)?.args.join(" ")).toContain(
      "sysfsdev=/sys/bus/mdev/devices/00000001-0000-0000-0000-000000000100",
    );
    // Another guest may have a part of the same device.
    await node.add(101, { hostpci0: "0000:02:00.0,mdev=nvidia-1", ...identity(101) });
    expect(await start(101)).toBe("OK");
    await removeMadeDevices(node.host, 100, node.values(100));
    expect(node.mediated.size).toBe(1);
  });
});

describe("USB devices of the host", () => {
  const put = (params: object) => node.call(`PUT ${VM}/config`, { vmid: 100, ...params }, "root");
  const plugged = new Set<string>();
  const added = () =>
    node.guests.get("100")?.qmp.commands.filter(({ name }) => /^(?:device|chardev)[-_]add$/.test(name)) ?? [];

  beforeEach(async () => {
    plugged.clear();
    node.guests.answers.set("qom-list", () => [...plugged].map((name) => ({ name, type: "child<x>" })));
    node.guests.answers.set("device_add", ({ id, driver }) => {
      if (driver === "usb-host" && id === "usb9") throw new Refused("no more ports");
      plugged.add(String(id));
      return {};
    });
    node.guests.answers.set("device_del", ({ id }) => {
      plugged.delete(String(id));
      node.guests.get("100")?.qmp.emit("DEVICE_DELETED", { device: id });
      return {};
    });
    node.guests.answers.set("chardev-add", () => ({}));
    node.guests.answers.set("chardev-remove", () => ({}));
    node.usb.add("046d:c52b");
    await node.addWithDisk(100, { ostype: "l26" });
    expect(await start(100)).toBe("OK");
  });

  it("are plugged into a running guest, with a controller the first time", async () => {
    await put({ usb0: "host=046d:c52b" });
    await put({ usb1: "host=1-2" });
    expect(added().map(({ args }) => args)).toMatchObject([
      { driver: "qemu-xhci", id: "xhci" },
      { driver: "usb-host", id: "usb0", bus: "xhci.0", port: "1" },
      { driver: "usb-host", id: "usb1", port: "2", hostport: "2" },
    ]);
    expect(node.guests.get("100")?.files).toContain("/dev/bus/usb/046d:c52b");
    expect(node.values(100)).toMatchObject({ usb0: "host=046d:c52b", usb1: "host=1-2" });
    await put({ usb0: "host=1-3" });
    expect(node.guests.get("100")?.files).not.toContain("/dev/bus/usb/046d:c52b");
    await put({ delete: "usb0,usb1" });
    expect([...plugged]).toEqual(["xhci"]);
    expect(node.values(100)).not.toHaveProperty("usb0");
  });

  it("are redirected by SPICE as well, and taken back", async () => {
    await put({ usb2: "spice" });
    expect(added().map(({ args }) => args)).toMatchObject([
      { driver: "qemu-xhci" },
      { id: "usbredirchardev2", backend: { type: "spicevmc" } },
      { driver: "usb-redir", id: "usbredirdev2" },
    ]);
    await put({ delete: "usb2" });
    expect([...plugged]).toEqual(["xhci"]);
  });

  it("that QEMU refuses stay pending, with the reason", async () => {
    node.usb.add("1-9");
    await expect(put({ usb9: "host=1-9" })).rejects.toMatchObject({
      errors: { usb9: expect.stringContaining("hotplug problem - ") },
    });
    expect(node.guests.get("100")?.files).not.toContain("/dev/bus/usb/1-9");
    expect(node.configs.get(100).pending).toHaveProperty("usb9");
  });

  it("wait for the next start where the guest cannot take them", async () => {
    await put({ hotplug: "disk,network" });
    await put({ usb0: "host=1-2" });
    expect(node.configs.get(100).pending).toEqual({ usb0: "host=1-2" });
    await node.guests.get("100")?.stop();
    await node.configs.change(100, (config) => ({
      ...config,
      values: { ...config.values, ostype: "other" },
    }));
    expect(await start(100)).toBe("OK");
    await put({ usb1: "host=1-3", hotplug: "usb" });
    expect(node.configs.get(100).pending).toHaveProperty("usb1");
    expect(node.guests.starts.at(-1)?.files.map(({ path }) => path)).toContain("/sys/bus/usb");
  });
});

it("directories are found by the names the cluster has for them", () => {
  node.directories.set("share", "/srv/share");
  expect(mappedDirectory(node.host, "share")).toBe("/srv/share");
  expect(() => mappedDirectory(node.host, "none")).toThrow("Directory mapping not found for 'none'");
});

describe("directories of the host", () => {
  beforeEach(async () => {
    node.directories.set("share", "/srv/share");
    const virtiofs0 = "share,cache=never,expose-acl=1,direct-io=1";
    await node.add(100, { virtiofs0, ...identity(100) });
  });

  it("are served by a process of their own for as long as the guest runs", async () => {
    expect(await start(100)).toBe("OK");
    const [server, qemu] = node.guests.starts;
    expect(server).toMatchObject({
      id: "100-fs0",
      asRoot: true,
      files: [{ path: "/srv/share", owned: false }, { access: "ro" }],
    });
    const args = server?.args.join(" ");
    expect(args).toContain("-o source=/srv/share -o cache=none -o sandbox=namespace");
    expect(args).toContain("-o allow_direct_io -o xattr -o posix_acl");
    expect(qemu?.files.map(({ path }) => path)).toContain("/nowhere/100-fs0/virtiofs");
    expect(qemu?.args.join(" ")).toContain("path=/nowhere/100-fs0/virtiofs");
    await node.guests.get("100")?.stop();
    expect(await start(100)).toBe("OK");
    await node.host.starter.stopHelpers(100);
    expect(node.guests.get("100-fs0")).toBeUndefined();
  });

  it("end with a start that failed", async () => {
    node.hostFacts = { pciDevices: [] };
    await node.add(101, { virtiofs0: "share", hostpci0: "0000:09:00.0", ...identity(101) });
    expect(await start(101)).toContain("no PCI device found");
    expect(node.guests.get("101-fs0")).toBeUndefined();
    node.directories.clear();
    expect(await start(100)).toBe("Directory mapping not found for 'share'");
  });

  it("that are gone, or a server that does not come up, are told", async () => {
    const files = new Set<string>();
    const host = {
      ...node.host,
      files: { ...node.host.files, exists: (path: string) => files.has(path) },
    };
    const signal = new AbortController().signal;
    const begin = () => startFileServers(host, 100, node.values(100), signal);
    await expect(begin()).rejects.toThrow("Path /srv/share does not exist");
    files.add("/srv/share");
    await expect(begin()).rejects.toThrow("virtiofsd is not installed");
    files.add("/usr/lib/qemu/virtiofsd");
    const waiting = begin();
    await expect.poll(() => node.guests.get("100-fs0")).toBeDefined();
    void node.guests.get("100-fs0")?.end("crashed");
    await expect(waiting).rejects.toThrow("failed to start the file server of VM 100 for 'share'");
  });
});

describe("disks of the host", () => {
  const added = () => {
    const { files = [], args = [] } = node.guests.starts.at(-1) ?? {};
    return { files: files.filter(({ path }) => path.startsWith("/dev/")), args: args.join(" ") };
  };

  it("belong to the guest that writes or reads them", async () => {
    await node.add(100, { scsi0: "/dev/sdf", scsi1: "/dev/sdh,ro=1", ide2: "/dev/sr9,media=cdrom" });
    expect(await start(100)).toBe("OK");
    expect(added().files).toEqual([
      { path: "/dev/sr9", access: "ro", ofHost: true },
      { path: "/dev/sdf", access: "rw", owned: true, ofHost: true },
      { path: "/dev/sdh", access: "ro", owned: true, ofHost: true },
    ]);
  });

  it("get a guest's SCSI commands where that is wanted and they speak SCSI", async () => {
    await node.add(100, { scsi0: "/dev/sdg,scsiblock=1", scsi1: "/dev/sdf,scsiblock=1", scsi2: "/dev/sdg" });
    expect(await start(100)).toBe("OK");
    expect(added().args.match(/scsi-(?:block|hd)\b/g)).toEqual(["scsi-block", "scsi-hd", "scsi-hd"]);
  });
});

describe("ports, generators and memory of the host", () => {
  const filesOf = () => (node.guests.starts.at(-1)?.files ?? []).filter(({ path }) => path.startsWith("/"));

  it("are reachable for the guest that has them, and for no other", async () => {
    await node.add(100, {
      serial0: "/dev/ttyS0",
      serial1: "socket",
      rng0: "source=/dev/hwrng",
      ivshmem: "size=1,name=both",
      ...identity(100),
    });
    expect(await start(100)).toBe("OK");
    expect(filesOf()).toEqual([
      { path: "/dev/ttyS0", access: "rw", ofHost: true },
      { path: "/dev/hwrng", access: "ro", owned: true, ofHost: true },
      { path: "/dev/shm/pve-shm-both", access: "rw" },
    ]);
    expect(node.guests.starts.at(-1)?.memlock).toBeUndefined();
    expect(node.memory.shared).toEqual(new Set(["both"]));
    await node.guests.get("100")?.stop();
    await removeMadeDevices(node.host, 100, node.values(100));
    expect(node.memory.shared.size).toBe(0);
    await node.add(101, { rng0: "source=/dev/urandom", ...identity(101) });
    expect(await start(101)).toBe("OK");
    expect(filesOf()).toEqual([]);
  });

  it("that are not there keep it from starting", async () => {
    await node.add(100, { parallel0: "/dev/parport9", ...identity(100) });
    expect(await start(100)).toBe("no such parallel device");
    await node.add(101, { rng0: "source=/dev/hwrng", ...identity(101) });
    Object.assign(node.host.files, { exists: () => false });
    expect(await start(101)).toBe("cannot create VirtIO RNG device: source file '/dev/hwrng' doesn't exist");
  });

  it("are taken from the nodes a VM on huge pages is spread over", async () => {
    const spread = { numa: "1", sockets: "2", memory: "64", hugepages: "2", keephugepages: "1" };
    await node.add(100, { ...spread, ...identity(100) });
    expect(await start(100)).toBe("OK");
    expect(node.memory.taken).toEqual([
      {
        needs: [
          { sizeMiB: 2, node: 0, count: 16 },
          { sizeMiB: 2, node: 1, count: 16 },
        ],
        keep: true,
      },
    ]);
    expect(filesOf()).toEqual([{ path: "/run/hugepages/kvm/2048kB/100", access: "rw" }]);
    await removeMadeDevices(node.host, 100, node.values(100));
    expect(node.memory.folders.size).toBe(0);
  });
});
