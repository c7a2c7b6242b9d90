// Running VMs and VMs with disks of this node, on their way to another one that is made up.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { MoveOffer, MovePeer, MovePeers } from "@gpve/domain/guest/move-channel.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import type { RamTransfer } from "@gpve/domain/vm/migrate/ram-transfer.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { expect, it, vi } from "vitest";
import type { FakeGuest } from "../../../testing/fake-guests.ts";
import { MadeUpServers } from "../../../testing/move-world.ts";
import { VmWorld } from "../../../testing/vm-world.ts";
import { migrateVmOperation, type MigrateArgs } from "./migrate-operation.ts";
import { sendVm } from "./send-vm.ts";

class MadeUpPeer implements MovePeers {
  readonly offers: MoveOffer[] = [];
  readonly sent: string[] = [];
  readonly lost = new AbortController();
  met = 0;
  announced = 0;
  hurried = 0;
  started = false;
  closed = false;
  forwarded: string[] = [];
  /** What the guest may send at last, each time. */
  readonly allowed: number[] = [];
  isExceeded = false;
  refusal: Error | undefined;
  wanted: unknown;
  taken: RamTransfer | undefined;

  async connect(): Promise<MovePeer> {
    this.met++;
    return {
      prepare: async (offer) => {
        if (this.refusal !== undefined) throw this.refusal;
        this.offers.push(offer);
        const live = offer.volumes.filter(({ isLive }) => isLive);
        return { volumes: Object.fromEntries(live.map(({ volid }) => [volid, `new:${volid}`])) };
      },
      send: async (volid, { body }) => {
        for await (const _chunk of body) continue;
        this.sent.push(volid);
        return volid.replace("local:", "there:");
      },
      start: async (_signal, wanted) => {
        this.started = true;
        this.wanted = wanted;
        return given({ transfer: this.taken });
      },
      forward: async (_process, channel) => {
        this.forwarded.push(channel);
        const isExceeded = (): boolean => this.isExceeded;
        return {
          path: `/run/${channel}`,
          allow: (bytes) => void this.allowed.push(bytes),
          hurry: () => void this.hurried++,
          get isExceeded() {
            return isExceeded();
          },
          close: async () => undefined,
        };
      },
      announce: () => void this.announced++,
      lost: this.lost.signal,
      close: () => void (this.closed = true),
    };
  }
}

async function source(prepare: (world: VmWorld) => Promise<unknown>) {
  const world = await VmWorld.open();
  await prepare(world);
  const servers = new MadeUpServers(world.records);
  servers.allow(100, "m");
  const peers = new MadeUpPeer();
  const moves = { servers, peers, find: (vmid: number, id: string) => servers.find(vmid, id) };
  const { engine, logs } = testEngine();
  engine.register(migrateVmOperation({ ...world.host, moves }));
  await engine.start();
  const submit = async (more: Partial<MigrateArgs> = {}): Promise<string> => {
    const args = { vmid: 100, moveId: "m", target: "n2", online: true, withLocalDisks: true, ...more };
    return (await engine.submit({ type: "qmigrate", resources: ["vm/100"], args, actor: "root@pam" })).upid;
  };
  return {
    world,
    servers,
    peers,
    engine,
    logs,
    guest: () => world.guests.qemu("100") as FakeGuest | undefined,
    submit,
    moved: async (more: Partial<MigrateArgs> = {}) => engine.wait(await submit(more)),
    conf: () => world.records.collection(guestCollection).get("100")?.value.conf ?? "",
    close: async () => {
      await engine.stop();
      world.remove();
    },
  };
}

const running = async (world: VmWorld): Promise<void> => {
  await world.add(100, { name: "g", memory: "128", migrate_downtime: "0.2" });
  await world.run(100);
};

it("sends a running VM, hands it over, and holds nothing of it", async () => {
  const { moved, peers, servers, guest, close } = await source(running);
  const process = guest();
  expect((await moved({ bwlimit: 1024 })).exitStatus).toBe("OK");
  expect(peers.offers[0]).toMatchObject({ type: "qemu", isRunning: true, isPaused: false, volumes: [] });
  expect(peers).toMatchObject({ started: true, closed: true, forwarded: ["ram"] });
  expect(process?.qmp.commands.find(({ name }) => name === "migrate-set-parameters")?.args).toEqual({
    "max-bandwidth": 1024 ** 2,
    "downtime-limit": 100,
    "cpu-throttle-initial": 40,
    "cpu-throttle-increment": 20,
    "max-cpu-throttle": 80,
    "tls-creds": "",
    "tls-hostname": "",
  });
  expect(servers.owner(100)).toBe("n2");
  expect(process?.hasExited).toBe(true);
  await close();
});

it("asks the other node to prepare nothing before it is noted that something may be there", async () => {
  const { world, peers, servers, guest, close } = await source(running);
  const move = servers.find(100, "m");
  const process = guest();
  if (move === undefined || process === undefined) throw new Error("it was allowed, and runs");
  const host = { ...world.host, moves: { peers } };
  const quiet = { signal: new AbortController().signal, log: () => undefined, progress: () => undefined };
  const noted = Promise.withResolvers<void>();
  const sent = sendVm(host, move, process, { ...quiet, withLocalDisks: true, begun: () => noted.promise });
  await vi.waitFor(() => expect(peers.met).toBe(1), { timeout: 30_000 });
  expect(peers.offers).toEqual([]);
  noted.reject(new Error("no disk"));
  await expect(sent).rejects.toThrow("no disk");
  expect(peers).toMatchObject({ offers: [], closed: true });
  await close();
});

it("has the other node announce it as soon as it stands still", async () => {
  const { moved, peers, guest, close } = await source(running);
  const qmp = guest()?.qmp;
  let looks = 0;
  qmp?.answers.set("query-migrate", () => {
    if (++looks === 1) qmp.emit("STOP", {});
    if (looks === 2) expect(peers).toMatchObject({ announced: 1, hurried: 1 });
    return { status: looks < 3 ? "device" : "completed" };
  });
  expect((await moved()).exitStatus).toBe("OK");
  expect(peers.announced).toBe(1);
  await close();
});

const multifdOf = ({ qmp }: FakeGuest): unknown[] =>
  qmp.commands
    .filter(({ name }) => name === "migrate-set-capabilities")
    .flatMap(({ args }) => (args as { capabilities: { capability: string; state: boolean }[] }).capabilities)
    .filter(({ capability }) => capability === "multifd")
    .map(({ state }) => state);

it("sends RAM by several connections and compressed where that is asked for and the other node takes it so", async () => {
  for (const taken of [{ channels: 4, compression: "zlib" } as const, undefined]) {
    const { moved, peers, servers, guest, logs, close } = await source(async (made) => {
      made.guests.answers.set("query-migrate-capabilities", () => [{ capability: "multifd", state: false }]);
      await running(made);
    });
    const process = guest();
    servers.allow(100, "m", "n2", { compression: "on" });
    peers.taken = taken;
    expect((await moved()).exitStatus).toBe("OK");
    expect(peers.wanted).toMatchObject({ channels: 4, compressions: ["zstd", "zlib"], plain: false });
    expect(process && multifdOf(process)).toEqual([taken !== undefined]);
    const parameters = process?.qmp.commands.filter(({ name }) => name === "migrate-set-parameters") ?? [];
    expect(parameters.some(({ args }) => args && "multifd-channels" in args)).toBe(taken !== undefined);
    expect([...logs.lines.values()].flat().join("\n")).toMatch(
      taken === undefined
        ? /by one connection, as it is: .*no way in common/
        : /4 connections, compressed by zlib/,
    );
    await close();
  }
});

it("keeps a VM that the other node does not take", async () => {
  const { moved, peers, servers, guest, close } = await source(running);
  peers.refusal = new AppError("capacity.exceeded", "node 'n2': no room");
  expect((await moved()).exitStatus).toContain("node 'n2': no room");
  expect(servers.owner(100)).toBe("n1");
  expect(guest()).toMatchObject({ hasExited: false, status: "running" });
  await close();
});

it.each(["lost", "cancelled"] as const)("keeps a VM whose move is %s on the way", async (how) => {
  const { submit, engine, peers, servers, guest, world, close } = await source(async (made) => {
    made.guests.answers.set("migrate", () => ({}));
    await running(made);
  });
  guest()?.qmp.answers.set("query-migrate", () => ({ status: "active", ram: { total: 1, remaining: 1 } }));
  guest()?.qmp.answers.set("migrate_cancel", () => {
    guest()?.qmp.answers.set("query-migrate", () => ({ status: "cancelled" }));
    return {};
  });
  const upid = await submit();
  await vi.waitFor(() => expect(peers.forwarded).toEqual(["ram"]), { timeout: 30_000 });
  if (how === "lost") peers.lost.abort(new AppError("node.unavailable", "node 'n2' hung up"));
  else await engine.cancel(upid, "root@pam");
  const ended = await engine.wait(upid);
  expect(ended.state).toBe(how === "lost" ? "failed" : "cancelled");
  expect(servers.owner(100)).toBe("n1");
  expect(guest()?.hasExited).toBe(false);
  expect(world.configs.has(100)).toBe(true);
  await close();
});

const MIB = 1024 ** 2;
const ramAt = (status: string, syncs: number, fullMiB = 0, leftMiB = 128) => ({
  status,
  ram: {
    total: 2 ** 30,
    remaining: leftMiB * MIB,
    transferred: 0,
    mbps: 0,
    "dirty-sync-count": syncs,
    "normal-bytes": fullMiB * MIB,
  },
});

/** A guest under TCG, and what its QEMU says at each look of each try; then it is whole there. */
async function emulated(tries: readonly (readonly object[])[], atLook?: (status: string) => void) {
  const state = { tries: 0, looks: 0, isCancelled: false };
  const world = await source(async (made) => {
    const { guests } = made;
    guests.answers.set("query-jobs", () => []);
    guests.answers.set("migrate", () => {
      Object.assign(state, { tries: state.tries + 1, looks: 0, isCancelled: false });
      return {};
    });
    guests.answers.set("migrate-continue", () => ({}));
    guests.answers.set("migrate_cancel", () => Object.assign(state, { isCancelled: true }) && {});
    guests.answers.set("query-migrate", () => {
      if (state.isCancelled) return { status: "cancelled" };
      const looks = tries[state.tries - 1] ?? [];
      atLook?.(made.guests.qemu("100")?.status ?? "");
      return looks[Math.min(state.looks++, looks.length - 1)] ?? { status: "completed" };
    });
    await running(made);
  });
  Object.assign(world.guest()?.note as object, { accelerator: "tcg" });
  const said = (text: string): number =>
    [...world.logs.lines.values()].flat().filter((line) => line.includes(text)).length;
  return { ...world, said };
}

const inTime = [
  ramAt("active", 1),
  ramAt("active", 1, 60),
  ramAt("pre-switchover", 1, 96, 0),
  { status: "completed" },
];
/** Once as it is let go, then too late. */
const tooLate = [ramAt("active", 1), ramAt("active", 1), ramAt("active", 2)];

it("sends an emulated guest by one pass, and no more than it may stand still for after that", async () => {
  const states: string[] = [];
  const { moved, peers, servers, guest, close } = await emulated([inTime], (status) => states.push(status));
  const process = guest();
  expect((await moved()).exitStatus).toBe("OK");
  // Held until the log was read; what QEMU makes of it at the end is its own matter.
  expect(states).toEqual(["paused", "running", "running", "running"]);
  const commands = process?.qmp.commands ?? [];
  expect(commands.find(({ name }) => name === "migrate-set-parameters")?.args).toMatchObject({
    "max-bandwidth": 2 ** 40,
    "downtime-limit": 0,
  });
  expect(commands.find(({ name }) => name === "migrate-set-capabilities")?.args).toMatchObject({
    capabilities: expect.arrayContaining([{ capability: "pause-before-switchover", state: true }]),
  });
  expect(peers).toMatchObject({ announced: 1, allowed: [4 * MIB], forwarded: ["ram"] });
  expect(servers.owner(100)).toBe("n2");
  await close();
});

it("sends a guest with more care that has changed too much to stand still for it", async () => {
  const failed = [...inTime.slice(0, 3), { status: "failed" }];
  const held = [ramAt("active", 1, 0, 512), ramAt("active", 1, 94, 30), ramAt("active", 2, 96, 1)];
  const { moved, peers, servers, said, close } = await emulated([failed, [...held, { status: "completed" }]]);
  peers.isExceeded = true;
  expect((await moved()).exitStatus).toBe("OK");
  expect(peers.forwarded).toEqual(["ram", "ram"]);
  expect(
    said("more of its memory meanwhile than it may stand still for. It runs on here. It is sent once more"),
  ).toBe(1);
  expect(servers.owner(100)).toBe("n2");
  await close();
});

it("gives up where the line is lost at the end, and nobody cut it", async () => {
  const failed = [...inTime.slice(0, 3), { status: "failed", "error-desc": "Broken pipe" }];
  const { moved, peers, servers, close } = await emulated([failed]);
  expect((await moved()).exitStatus).toContain("sending the RAM failed: Broken pipe");
  expect(peers.forwarded).toEqual(["ram"]);
  expect(servers.owner(100)).toBe("n1");
  await close();
});

it("sends a guest once more that ran while changes of its memory were read", async () => {
  const { moved, peers, servers, said, close } = await emulated([tooLate, tooLate]);
  expect((await moved()).exitStatus).toBe("OK");
  expect(peers.forwarded).toEqual(["ram", "ram", "ram"]);
  expect(said("It is sent once more")).toBe(2);
  expect(servers.owner(100)).toBe("n2");
  await close();
});

it("keeps a guest that cannot be held in time", async () => {
  const { moved, peers, servers, guest, close } = await emulated([tooLate, tooLate, tooLate]);
  expect((await moved()).exitStatus).toContain("to hold the guest, which it emulates");
  expect(peers.forwarded).toHaveLength(3);
  expect(servers.owner(100)).toBe("n1");
  expect(guest()).toMatchObject({ hasExited: false, status: "running" });
  await close();
});

it("gives up a guest that is too busy, and it runs on", async () => {
  const { moved, guest, servers, close } = await source(async (made) => {
    made.guests.answers.set("migrate", () => ({}));
    await running(made);
  });
  const busy = { status: "active", ram: { total: 1, remaining: 1, "dirty-sync-count": 41 } };
  guest()?.qmp.answers.set("query-migrate", () => ({ ...busy, "expected-downtime": 900 }));
  guest()?.qmp.answers.set("migrate_cancel", () => {
    guest()?.qmp.answers.set("query-migrate", () => ({ status: "cancelled" }));
    return {};
  });
  expect((await moved()).exitStatus).toContain(
    "it would stand still for 900 ms, of 200 ms allowed. It runs on here",
  );
  expect(servers.owner(100)).toBe("n1");
  await close();
});

it("sends disks of a stopped VM, renames them, and frees its own", async () => {
  const { moved, peers, world, conf, close } = await source((made) => made.addWithDisk(100, { name: "g" }));
  const [volid = ""] = world.images(100).map((name) => `local:100/${name}`);
  expect((await moved({ online: false, withLocalDisks: false })).exitStatus).toBe("OK");
  expect(peers.offers[0]).toMatchObject({ isRunning: false, volumes: [{ volid, isLive: false }] });
  expect(peers.sent).toEqual([volid]);
  expect(conf()).toContain(`: ${volid.replace("local:", "there:")}`);
  expect(world.images(100)).toEqual([]);
  await close();
});

it("leaves a VM whose disk is lent by another one, and the disk with that one", async () => {
  let lent = "";
  const { moved, peers, servers, world, close } = await source(async (made) => {
    lent = `local:${await made.addWithDisk(101, { name: "owner" })}`;
    await made.add(100, { name: "g", scsi1: lent });
  });
  expect((await moved({ online: false, withLocalDisks: false })).exitStatus).toContain(
    `can't migrate local disk '${lent}' (scsi1): owned by other VM (owner = VM 101)`,
  );
  expect(peers).toMatchObject({ met: 0, sent: [] });
  expect(servers.owner(100)).toBe("n1");
  expect(world.images(101)).toHaveLength(1);
  await close();
});

it("refuses what would be left behind", async () => {
  const withDisk = async (made: VmWorld): Promise<void> => {
    await made.addWithDisk(100, { name: "g" });
    await made.run(100);
  };
  const { moved, close } = await source(withDisk);
  expect((await moved({ withLocalDisks: false })).exitStatus).toContain("without with-local-disks option");
  await close();
  const bound = await source(async (made) => {
    await made.add(100, { name: "g" });
    await made.run(100);
    await made.configs.change(100, (config) => ({
      ...config,
      values: { ...config.values, serial1: "/dev/ttyS0" },
    }));
  });
  expect((await bound.moved()).exitStatus).toContain("devices of this node (serial1)");
  await bound.close();
});
