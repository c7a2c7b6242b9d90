import { expect, test } from "vitest";
import type { GuestBounds } from "@gpve/domain/guest/guest-processes.ts";
import type { GuestTap, QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { sampleHost } from "@gpve/domain/vm/argv/testing/sample-host.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { changeLive } from "./live-change.ts";
import type { StartPlanPorts } from "../start/start-plan.ts";

interface Script {
  readonly refuse?: string;
  readonly trayClosedAt?: string;
  readonly devices?: readonly string[];
  readonly cpus?: number;
  /** Block nodes that QEMU has. */
  readonly nodes?: readonly string[];
}

/** A QEMU that says yes to everything but `refuse`, and lets go of devices at once. */
function world(script: Script = {}) {
  const calls: string[] = [];
  const plugged: GuestTap[] = [];
  const answer = async (command: string, args: Record<string, string | undefined> = {}): Promise<unknown> => {
    calls.push(`${command} ${args["id"] ?? args["node-name"] ?? args["name"] ?? args["path"] ?? ""}`.trim());
    if (command === script.refuse) throw new Error(`${command} refused`);
    if (command === script.trayClosedAt && calls.filter((call) => call.startsWith(command)).length < 3)
      throw new Error(`Tray of the device is not open`);
    if (command === "qom-list")
      return (script.devices ?? []).map((name) => ({ name, type: "child<device>" }));
    if (command === "query-named-block-nodes")
      return (script.nodes ?? []).map((name) => ({ "node-name": name }));
    if (command === "query-cpus-fast") return Array.from({ length: script.cpus ?? 1 }, () => ({}));
    return {};
  };
  let bounds: GuestBounds = {};
  const process = {
    raiseBounds: (wanted: GuestBounds) => (bounds = wanted),
    note: { machine: "pc-i440fx-7.2" },
    qmp: {
      label: "VM 100",
      clock: systemClock,
      execute: answer,
      raw: answer,
      events: { waitFor: () => ({ result: Promise.resolve(true), cancel: () => undefined }) },
    },
    allowFile: async ({ path }: { path: string }) => void calls.push(`allow ${path}`),
    forbidFile: async (path: string) => void calls.push(`forbid ${path}`),
    plugTap: async (id: string, tap: GuestTap & { vhost: boolean }) => {
      plugged.push(tap);
      calls.push(`tap ${id} ${tap.name} ${tap.bridge}`);
    },
  } as unknown as QemuProcess;
  const helpers = new Map<string, unknown>();
  const host = {
    qemu: { binary: "/qemu", facts: () => sampleHost() },
    configs: { node: "n1" },
    pci: { inUse: () => new Set() },
    devices: { scsiKind: () => undefined },
    ids: { sha256Hex: (text: string) => text.length.toString(16).padStart(64, "a") },
    files: { exists: () => true },
    processes: {
      placeOf: () => ({ socketPath: (name: string) => `/${name}`, ioFolder: "/io" }),
      list: () => [],
      get: (id: string) => helpers.get(id),
      start: async ({ id, note }: { id: string; note: unknown }) => {
        calls.push(`start ${id}`);
        const helper = { id, note, hasExited: false, stop: async () => helpers.delete(id) };
        helpers.set(id, helper);
        return helper;
      },
    },
    network: {
      isPortFree: async () => true,
      filter: async (_vmid: number, tap: string, net: { firewall?: boolean }) => {
        if (net.firewall !== true) return undefined;
        calls.push(`filter ${tap}`);
        return "filtered";
      },
      wallOff: async () => undefined,
      unwall: async () => undefined,
      unfilter: async (_vmid: number, tap: string) => void calls.push(`unfilter ${tap}`),
      bridge: async (_key: string, net: { bridge?: string }) => ({
        device: `${net.bridge ?? ""}k`,
        mtu: net.bridge === "vmbr1" ? 9000 : 1500,
      }),
      newTap: (vmid: number, key: string) => `tap${vmid}i${key.slice(3)}`,
      tapOf: (vmid: number, key: string) => `tap${vmid}i${key.slice(3)}`,
      configure: async (tap: string) => {
        calls.push(`configure ${tap}`);
        return ["no police here"];
      },
      attach: async (tap: string, { device, mtu }: { device: string; mtu: number }) =>
        void calls.push(`attach ${tap} ${device} ${mtu}`),
    },
  } as unknown as StartPlanPorts;
  const lines: string[] = [];
  const change = (values: VmValues, key: string, text?: string) =>
    changeLive({ host, vmid: 100, process, log: (line) => lines.push(line) }, values, key, text);
  return { calls, plugged, lines, change, helpers: () => [...helpers.keys()], bounds: () => bounds };
}

const disk = "/images/a.raw,format=raw";

test("plugs a disk with its thread and controller, and lets the guest reach its file first", async () => {
  const { calls, change } = world();
  const values = { scsihw: "virtio-scsi-single" };
  expect(await change(values, "scsi1", `${disk},iothread=1`)).toBe("applied");
  expect(calls.slice(2)).toEqual([
    "allow /images/a.raw",
    "object-add iothread-virtioscsi1",
    "device_add virtioscsi1",
    "object-add throttle-drive-scsi1",
    "blockdev-add drive-scsi1",
    "device_add scsi1",
  ]);
});

test("takes everything back when QEMU refuses the disk", async () => {
  const { calls, change } = world({ refuse: "device_add" });
  await expect(change({}, "virtio1", disk)).rejects.toThrow("device_add refused");
  expect(calls.slice(-3)).toEqual([
    "blockdev-del drive-virtio1",
    "object-del throttle-drive-virtio1",
    "forbid /images/a.raw",
  ]);
});

test("unplugs a disk with all that belongs to it, and keeps files another drive needs", async () => {
  const { calls, change } = world({
    nodes: ["drive-scsi1", "drive-scsi10", "fab", "drive-scsi1-0123456789ab"],
  });
  const values = { scsihw: "virtio-scsi-single", scsi1: `${disk},iothread=1` };
  expect(await change(values, "scsi1")).toBe("applied");
  expect(calls).toEqual([
    "device_del scsi1",
    "query-named-block-nodes",
    "blockdev-del drive-scsi1",
    // A copy took its place, and a crash of ours left both.
    "blockdev-del drive-scsi1-0123456789ab",
    "object-del throttle-drive-scsi1",
    "device_del virtioscsi1",
    "object-del iothread-virtioscsi1",
    "forbid /images/a.raw",
  ]);
  const shared = world();
  await shared.change({ virtio0: disk, virtio1: disk }, "virtio1");
  expect(shared.calls).not.toContain("forbid /images/a.raw");
});

test("exchanges the medium of a CD drive, and empties it", async () => {
  const { calls, change } = world();
  const values = { ide2: "/iso/a.iso,media=cdrom" };
  expect(await change(values, "ide2", "/iso/b.iso,media=cdrom")).toBe("applied");
  expect(calls).toContain("blockdev-insert-medium ide2");
  expect(calls.at(-1)).toBe("forbid /iso/a.iso");
  const emptied = world();
  expect(await emptied.change(values, "ide2", "none,media=cdrom")).toBe("applied");
  expect(emptied.calls).not.toContain("blockdev-insert-medium ide2");
});

test("opens the tray again where the guest closed it meanwhile", async () => {
  for (const trayClosedAt of ["blockdev-remove-medium", "blockdev-insert-medium"]) {
    const { calls, change } = world({ trayClosedAt });
    await change({ ide2: "/iso/a.iso,media=cdrom" }, "ide2", "/iso/b.iso,media=cdrom");
    expect(calls.filter((call) => call.startsWith(trayClosedAt))).toHaveLength(3);
    expect(calls.at(-2)).toBe("blockdev-close-tray ide2");
  }
  const { calls, change } = world({ refuse: "blockdev-insert-medium", nodes: ["drive-ide2"] });
  await expect(change({ ide2: "none,media=cdrom" }, "ide2", "/iso/b.iso,media=cdrom")).rejects.toThrow(
    "refused",
  );
  expect(calls.slice(-2)).toEqual(["blockdev-del drive-ide2", "object-del throttle-drive-ide2"]);
});

test("changes limits live, and leaves other options and buses for the next start", async () => {
  const { calls, change } = world();
  expect(await change({ scsi0: disk }, "scsi0", `${disk},mbps=3`)).toBe("applied");
  expect(calls).toEqual(["qom-set /objects/throttle-drive-scsi0"]);
  expect(await change({ scsi0: disk }, "scsi0", `${disk},cache=unsafe`)).toBe("pending");
  expect(await change({}, "ide0", disk)).toBe("pending");
  expect(await change({ hotplug: "network" }, "scsi1", disk)).toBe("pending");
  expect(await change({ scsi0: disk }, "scsi0", disk)).toBe("applied");
  expect(await world().change({ scsi0: disk }, "scsi0", "/images/b.raw,format=raw")).toBe("applied");
});

test("plugs, moves and unplugs network cards", async () => {
  const mac = "virtio=BC:24:11:00:00:01";
  const { calls, lines, change } = world();
  expect(await change({}, "net0", `${mac},bridge=vmbr0,link_down=1`)).toBe("applied");
  expect(calls).toEqual([
    "tap net0 tap100i0 vmbr0k",
    "device_add net0",
    "set_link net0",
    "configure tap100i0",
  ]);
  expect(lines).toEqual(["net0: no police here"]);
  const moved = world();
  await moved.change({ net0: `${mac},bridge=vmbr0` }, "net0", `${mac},bridge=vmbr1,link_down=1`);
  expect(moved.calls).toEqual(["attach tap100i0 vmbr1k 9000", "configure tap100i0", "set_link net0"]);
  const replugged = world();
  await replugged.change({ net0: `${mac},bridge=vmbr0` }, "net0", mac);
  expect(replugged.calls).toEqual([
    "device_del net0",
    "netdev_del net0",
    "unfilter tap100i0",
    "start 100-net0",
    "allow /io/net",
    "netdev_add net0",
    "device_add net0",
  ]);
  expect(replugged.lines).toEqual([
    "net0 has a user-mode network (outward only). Reach it with: ssh -p 20100 USER@127.0.0.1",
  ]);
  await replugged.change({ net0: mac }, "net0");
  expect(replugged.calls.slice(-1)).toEqual(["forbid /io/net"]);
  expect(replugged.helpers()).toEqual([]);
  const refused = world({ refuse: "device_add" });
  await expect(refused.change({}, "net0", mac)).rejects.toThrow("refused");
  expect(refused.calls.at(-1)).toBe("netdev_del net0");
  expect(refused.helpers()).toEqual([]);
  expect(await world().change({ hotplug: "disk" }, "net0", mac)).toBe("pending");
});

test("filters a card before it can send, and no longer than it is there", async () => {
  const card = "virtio=BC:24:11:00:00:01,bridge=vmbr0";
  const plugged = world();
  await plugged.change({}, "net0", `${card},firewall=1`);
  expect(plugged.calls.slice(0, 2)).toEqual(["filter tap100i0", "tap net0 tap100i0 vmbr0k"]);
  expect(plugged.lines).toContain("net0: filtered");
  await plugged.change({ net0: `${card},firewall=1` }, "net0");
  expect(plugged.calls.at(-1)).toBe("unfilter tap100i0");
  const refused = world({ refuse: "device_add" });
  await expect(refused.change({}, "net0", `${card},firewall=1`)).rejects.toThrow("refused");
  expect(refused.calls.at(-1)).toBe("unfilter tap100i0");
  const switched = world();
  await switched.change({ net0: card }, "net0", `${card},firewall=1`);
  expect(switched.calls.at(-1)).toBe("filter tap100i0");
});

test("grows and shrinks CPUs and memory where the guest was started for it", async () => {
  const values = { hotplug: "cpu,memory", sockets: "1", cores: "4", numa: "1", memory: "1024" };
  const { calls, change } = world({ cpus: 1 });
  expect(await change(values, "vcpus", "3")).toBe("applied");
  expect(calls.slice(1)).toEqual(["device_add cpu2", "device_add cpu3"]);
  await expect(change(values, "vcpus", "9")).rejects.toThrow("more vcpus");
  const fewer = world({ cpus: 4 });
  await fewer.change(values, "vcpus", "3");
  expect(fewer.calls.slice(1)).toEqual(["device_del cpu4"]);
  const more = world();
  expect(await more.change(values, "memory", "1536")).toBe("applied");
  expect(more.calls).toEqual(["object-add mem-dimm0", "device_add dimm0"]);
  expect(more.bounds().memoryBytes).toBeGreaterThan((1536 + 2048) * 1024 ** 2);
  await expect(more.change(values, "memory", "1600")).rejects.toThrow("aligned to 512");
  const less = world();
  await less.change({ ...values, memory: "1536" }, "memory", "1024");
  expect(less.calls).toEqual(["device_del dimm0", "object-del mem-dimm0"]);
  expect(await change({}, "vcpus", "2")).toBe("pending");
  expect(await change({}, "memory", "2048")).toBe("pending");
});

test("sets the balloon, and leaves the rest for the next start", async () => {
  const { calls, change } = world();
  expect(await change({ memory: "1024", shares: "0" }, "balloon", "512")).toBe("applied");
  expect(await change({ memory: "1024", balloon: "512" }, "balloon")).toBe("applied");
  expect(calls).toEqual(["balloon", "balloon"]);
  expect(await change({ memory: "1024" }, "balloon", "512")).toBe("applied");
  expect(calls).toHaveLength(2);
  expect(await change({}, "balloon", "0")).toBe("pending");
  expect(await change({}, "hotplug", "disk")).toBe("applied");
  expect(await change({}, "hotplug", "disk,cpu")).toBe("pending");
  expect(await change({}, "name", "x")).toBe("applied");
  expect(await change({}, "cores", "2")).toBe("pending");
});

test("takes the pointer of a console in and out, where USB may", async () => {
  const there = world({ devices: ["tablet"] });
  expect(await there.change({}, "tablet", "1")).toBe("applied");
  expect(there.calls.filter((call) => call.startsWith("device"))).toEqual([]);
  expect(await there.change({}, "tablet", "0")).toBe("applied");
  expect(there.calls).toContain("device_del tablet");
  const none = world();
  expect(await none.change({ tablet: "0" }, "tablet")).toBe("applied");
  expect(none.calls).toContain("device_add tablet");
  expect(await none.change({ tablet: "0" }, "tablet", "0")).toBe("applied");
  expect(await none.change({ hotplug: "disk" }, "tablet", "0")).toBe("pending");
});

test("changes what is done for clones at once, the rest of the agent with the next start", async () => {
  const { change } = world();
  expect(await change({ agent: "1" }, "agent", "enabled=1,fstrim_cloned_disks=1")).toBe("applied");
  expect(await change({ agent: "1" }, "agent", "1,type=isa")).toBe("pending");
  expect(await change({}, "agent", "1")).toBe("pending");
  expect(await change({ agent: "1" }, "agent")).toBe("pending");
});

test("plugs a card with its bridge's MTU, and with queues and vhost only where they can be", async () => {
  const { plugged, change } = world();
  await change({}, "net0", "virtio=BC:24:11:00:00:01,bridge=vmbr1,queues=4,mtu=1400");
  await change({}, "net1", "e1000=BC:24:11:00:00:02,bridge=vmbr0,queues=4");
  expect(plugged).toMatchObject([
    { mtu: 9000, queues: 4, vhost: true },
    { mtu: 1500, queues: 1, vhost: false },
  ]);
});

test("changes what is behind a card without being allowed to plug cards", async () => {
  const { calls, change } = world();
  const values = { hotplug: "disk", net0: "virtio=BC:24:11:00:00:01,bridge=vmbr0" };
  expect(await change(values, "net0", "virtio=BC:24:11:00:00:01,bridge=vmbr1,link_down=1")).toBe("applied");
  expect(calls).toEqual(["attach tap100i0 vmbr1k 9000", "configure tap100i0", "set_link net0"]);
  expect(await change(values, "net0", "e1000=BC:24:11:00:00:01,bridge=vmbr0")).toBe("pending");
  expect(await change(values, "net1", "virtio=BC:24:11:00:00:02,bridge=vmbr0")).toBe("pending");
  expect(await change(values, "net0")).toBe("pending");
});

test("makes no disk of a CD drive under a guest", async () => {
  const { change } = world();
  await expect(change({ ide2: "none,media=cdrom" }, "ide2", "/images/a.raw,format=raw")).rejects.toThrow(
    "unable to change media type",
  );
});
