// Running VMs and VMs with disks of this node, on their way to another one that is made up.
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

class MadeUpPeer implements MovePeers {
  readonly offers: MoveOffer[] = [];
  readonly sent: string[] = [];
  readonly lost = new AbortController();
  announced = 0;
  started = false;
  closed = false;
  forwarded: string[] = [];
  refusal: Error | undefined;
  wanted: unknown;
  taken: RamTransfer | undefined;

  async connect(): Promise<MovePeer> {
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
        return this.taken;
      },
      forward: async (_process, channel) => {
        this.forwarded.push(channel);
        return { path: `/run/${channel}`, close: async () => undefined };
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
  });
  expect(servers.owner(100)).toBe("n2");
  expect(process?.hasExited).toBe(true);
  await close();
});

it("has the other node announce it as soon as it stands still", async () => {
  const { moved, peers, guest, close } = await source(running);
  const qmp = guest()?.qmp;
  let looks = 0;
  qmp?.answers.set("query-migrate", () => {
    if (++looks === 1) qmp.emit("STOP", {});
    if (looks === 2) expect(peers.announced).toBe(1);
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

/** A guest under TCG whose QEMU reads its log while it runs, so many times. */
async function notHeld(times: number) {
  const state = { left: times, looks: 0, isCancelled: false };
  const at = (syncs: number) => ({
    status: "active",
    ram: { total: 2 ** 30, remaining: 2 ** 27, transferred: 0, mbps: 0, "dirty-sync-count": syncs },
  });
  const world = await source(async (made) => {
    const { guests } = made;
    guests.answers.set("query-jobs", () => []);
    guests.answers.set("migrate", () => Object.assign(state, { looks: 0, isCancelled: false }) && {});
    guests.answers.set("migrate_cancel", () => {
      Object.assign(state, { left: state.left - 1, isCancelled: true });
      return {};
    });
    guests.answers.set("query-migrate", () => {
      if (state.isCancelled) return { status: "cancelled" };
      if (state.left === 0) return { status: "completed" };
      // Twice as it is let go, then too late.
      return ++state.looks > 2 ? at(2) : at(1);
    });
    await running(made);
  });
  Object.assign(world.guest()?.note as object, { accelerator: "tcg" });
  return world;
}

it("sends a guest once more that ran while changes of its memory were read", async () => {
  const { moved, peers, servers, logs, close } = await notHeld(2);
  expect((await moved()).exitStatus).toBe("OK");
  expect(peers.forwarded).toEqual(["ram", "ram", "ram"]);
  expect(
    [...logs.lines.values()].flat().filter((line) => line.includes("It is sent once more")),
  ).toHaveLength(2);
  expect(servers.owner(100)).toBe("n2");
  await close();
});

it("keeps a guest that cannot be held in time", async () => {
  const { moved, peers, servers, guest, close } = await notHeld(3);
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
