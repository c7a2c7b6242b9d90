import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { EndedGuest, GuestExit } from "@gpve/domain/guest/guest-processes.ts";
import { controlPlaneCertificates } from "@gpve/domain/vcluster/certificates.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { SETTINGS_DISK_BYTES } from "@gpve/domain/vcluster/vnode/machine.ts";
import type { KeptVnode } from "@gpve/domain/vcluster/vnode/vnode.ts";
import type { QemuProcess, QemuStart } from "@gpve/domain/vm/qemu-processes.ts";
import { exec } from "@gpve/kit/exec.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import type { SupervisedGuest } from "../../guest-process/supervised-guest.ts";
import { ClusterKeys } from "../../vcluster/cluster-keys.ts";
import { ClusterNetworks } from "../../vcluster/network/cluster-network.ts";
import { MachineVnodeHost } from "./machine-vnode-host.ts";

const spec = readVirtualClusterSpec({ isolationLevel: "L3", workerNodes: { count: 1 } });
const cluster: KeptCluster = {
  name: "demo",
  tenant: "default",
  spec,
  version: "1.36.4",
  network: 7,
  phase: "Running",
  isWanted: true,
};
const vnode: KeptVnode = { slot: 0, name: "worker-1", size: spec.workerSize, isWanted: true };
const ended: GuestExit = { cause: "crashed", at: 0, outOfMemory: false, lastWords: "Kernel panic" };

describe("a worker that is a machine", () => {
  let folder: string;
  let started: QemuStart[];
  let running: Map<string, QemuStart>;
  let forgotten: string[];
  let routed: string[];
  let versions: string[];
  let onExit: (ended: EndedGuest) => void;
  let list: readonly KeptVnode[];
  let host: MachineVnodeHost;
  const place = (): string => join(folder, "clusters/demo/vnodes/worker-1");

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-machine-"));
    [started, running, forgotten, routed, versions, list] = [[], new Map(), [], [], [], [vnode]];
    const clock = new FakeClock();
    const keys = new ClusterKeys(join(folder, "pki"), clock);
    const { serviceCidr, dnsDomain } = spec;
    await keys.ensure(
      controlPlaneCertificates({ serviceCidr, dnsDomain, address: "100.80.7.2", alsoKnownAs: [] }),
    );
    const networks = new ClusterNetworks(
      async (_file, args) => {
        routed.push(args.join(" "));
        return { code: 0, stdout: "", stderr: "" };
      },
      "0123456789",
      folder,
    );
    host = new MachineVnodeHost({
      folder,
      instanceId: "i",
      exec,
      clock,
      processes: {
        startQemu: async (start) => {
          started.push(start);
          running.set(start.id, start);
          return {} as QemuProcess;
        },
        get: (id) => {
          const start = running.get(id);
          if (start === undefined) return undefined;
          const end = async (): Promise<GuestExit> => {
            running.delete(id);
            return ended;
          };
          const guest = { hasExited: false, note: start.note, exited: Promise.resolve(ended), stop: end };
          return guest as unknown as SupervisedGuest;
        },
        forget: async (id) => void forgotten.push(id),
        onExit: (listener) => {
          onExit = listener;
          return () => undefined;
        },
        lastWords: () => "worker: worker-1 is up\n",
        placeOf: (id) => ({ socketPath: (name) => join(folder, id, name), ioFolder: folder }),
      },
      networks,
      keysOf: () => keys,
      endpoint: () => "https://100.80.7.2:6443",
      list: () => list,
      images: async (version) => {
        versions.push(version);
        return { kernel: "/k", initrd: "/i", root: "/r" };
      },
      qemu: "/usr/bin/qemu-system-x86_64",
      accelerator: () => "tcg",
      nameServers: () => ({ listed: ["127.0.0.53", "192.0.2.53"], own: [] }),
    });
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));
  const start = (): Promise<void> => host.start(cluster, vnode, new AbortController().signal);

  test("is started once, confined to its size, on its cluster's bridge, with its keys on a disk", async () => {
    await start();
    await start();
    expect(started).toHaveLength(1);
    expect(started[0]).toMatchObject({
      id: "demo.w0-machine",
      taps: [{ name: "vcw7x0", bridge: "vcb7" }],
      limits: { cpuLimit: 2 },
      needsKvm: false,
      files: [
        { path: "/k", access: "ro" },
        { path: "/i", access: "ro" },
        { path: "/r", access: "ro" },
        { path: join(place(), "own.raw"), access: "rw" },
        { path: join(place(), "settings.raw"), access: "ro", owned: true },
      ],
    });
    expect(started[0]?.args.join(" ")).not.toContain("PRIVATE KEY");
    const settings = readFileSync(join(place(), "settings.raw"));
    expect(settings).toHaveLength(SETTINGS_DISK_BYTES);
    expect(settings.toString("latin1")).toContain("PRIVATE KEY");
    expect(settings.toString("latin1")).toContain("ADDRESS=100.80.7.10");
    expect(statSync(join(place(), "settings.raw")).mode & 0o077).toBe(0);
    expect(statSync(join(place(), "own.raw")).blocks * 512).toBeLessThan(64 * 2 ** 20);
    expect([host.isUp(cluster, vnode), host.accelerator("demo", vnode)]).toEqual([true, "tcg"]);
    await host.route(cluster);
    expect(routed.at(-1)).toContain("route replace 10.244.0.0/24 via 100.80.7.10");
  });

  test("is told whom to ask for names outside, where it may go out", async () => {
    const told = (): string => readFileSync(join(place(), "etc/resolv.conf"), "utf8");
    await start();
    expect(told()).toBe("");
    await host.stop(cluster, vnode);
    const open = { ...cluster, spec: { ...cluster.spec, egress: "nat" } } as const;
    await host.start(open, vnode, new AbortController().signal);
    expect(told()).toBe("nameserver 192.0.2.53\n");
  });

  test("keeps its disk when it is stopped, and leaves nothing when it goes", async () => {
    await start();
    await host.stop(cluster, vnode);
    expect([host.isUp(cluster, vnode), host.pods(cluster, vnode), host.accelerator("demo", vnode)]).toEqual([
      false,
      [],
      undefined,
    ]);
    expect(forgotten).toEqual(["demo.w0-machine"]);
    expect(existsSync(join(place(), "own.raw"))).toBe(true);
    const { ino } = statSync(join(place(), "settings.raw"));
    await start();
    // A machine that runs has it open: it is never another file.
    expect(statSync(join(place(), "settings.raw")).ino).toBe(ino);
    host.remove(cluster, vnode);
    expect(existsSync(place())).toBe(false);
  });

  test("is exchanged for one of the new version, on the same disk", async () => {
    await start();
    const { ino } = statSync(join(place(), "own.raw"));
    const next = { ...cluster, version: "1.37.0" };
    await host.exchange(next, vnode, new AbortController().signal);
    expect([versions, started.length, forgotten.length]).toEqual([["1.36.4", "1.37.0", "1.37.0"], 2, 1]);
    expect(statSync(join(place(), "own.raw")).ino).toBe(ino);
    expect(host.isUp(next, vnode)).toBe(true);
  });

  test("is told of its persistent volumes, by its settings and by its line", async () => {
    await start();
    const heard: string[] = [];
    mkdirSync(join(folder, "demo.w0-machine"));
    const line = createServer((socket) => socket.on("data", (data) => heard.push(String(data)))).listen(
      join(folder, "demo.w0-machine", "line"),
    );
    const volume = "pvc-00000000-0000-0000-0000-000000000001";
    const listed = (): string => readFileSync(join(place(), "etc/volumes"), "utf8");
    await host.makeVolume(cluster, vnode, volume, 100);
    await host.makeVolume(cluster, vnode, volume, 200);
    expect(listed()).toBe(`${volume}\n`);
    expect(readFileSync(join(place(), "settings.raw"), "latin1")).toContain(`${volume}\n`);
    expect(readFileSync(join(place(), "asked", volume), "utf8")).toBe("100");
    // Another start tells it again.
    await host.stop(cluster, vnode);
    await start();
    expect(listed()).toBe(`${volume}\n`);
    await host.removeVolume(cluster, vnode, volume);
    expect(listed()).toBe("");
    await vi.waitFor(() => expect(heard.join("").split("\n")).toContain(`drop ${volume}`), 30_000);
    expect(heard.join("")).toMatch(/^volumes\n/);
    await host.stop(cluster, vnode);
    line.close();
  });

  test("that does not listen is told of no volume, and asked again", async () => {
    await start();
    const volume = "pvc-00000000-0000-0000-0000-000000000001";
    await expect(host.makeVolume(cluster, vnode, volume, 100)).rejects.toThrow();
    await expect(host.removeVolume(cluster, vnode, volume)).rejects.toThrow();
    // Not forgotten: what is in it still takes room.
    expect(existsSync(join(place(), "asked", volume))).toBe(true);
  });

  test("tells of its end when nobody wanted it", () => {
    const told: string[] = [];
    host.onEnd((name, worker, part, why) => told.push(`${name} ${worker} ${part} ${why}`));
    const end = (id: string, exit: GuestExit) => onExit({ id, label: id, note: undefined, exit });
    end("demo.w0-kubelet", ended);
    end("demo.w0-machine", { ...ended, cause: "stopped" });
    end("demo.w0-machine", ended);
    list = [{ ...vnode, isWanted: false }];
    end("demo.w0-machine", ended);
    expect(told).toEqual(["demo worker-1 machine crashed: Kernel panic"]);
    expect(host.lastWords("demo", vnode)).toEqual(["worker-1 machine: worker: worker-1 is up"]);
  });
});
