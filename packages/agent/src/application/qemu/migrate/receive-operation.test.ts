// A VM that comes from another node, until it is ours or not.
import { getPriority } from "node:os";
import { readFileSync } from "node:fs";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { MoveKeys, MoveOffer } from "@gpve/domain/guest/move-channel.ts";
import type { WantedTransfer } from "@gpve/domain/vm/migrate/ram-transfer.ts";
import { qmpRefused } from "@gpve/domain/vm/qmp/qmp-errors.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { expect, it, vi } from "vitest";
import { MadeUpServers } from "../../../testing/move-world.ts";
import { VmWorld } from "../../../testing/vm-world.ts";
import { runningVm } from "../running-vm.ts";
import { Arrivals } from "./arrivals.ts";
import { receiveVmOperation, type ReceivePorts } from "./receive-operation.ts";
import { withVolumes } from "./received-volumes.ts";

const conf = [
  "memory: 128",
  "name: g",
  "scsi0: far:100/vm-100-disk-0.raw,size=1M",
  "",
  "[s]",
  "scsi0: far:100/vm-100-disk-0.raw,size=1M",
  "",
].join("\n");
const volume = {
  volid: "far:100/vm-100-disk-0.raw",
  key: "scsi0",
  storage: "local",
  format: "raw",
  bytes: 1024 ** 2,
  isLive: true,
};
const offer: MoveOffer = { type: "qemu", conf, isRunning: true, machine: "pc-i440fx-7.2", volumes: [volume] };

async function target() {
  const world = await VmWorld.open();
  for (const command of ["nbd-server-start", "nbd-server-stop", "block-export-add", "announce-self"])
    world.guests.answers.set(command, () => ({}));
  for (const command of ["blockdev-add", "blockdev-del"]) world.guests.answers.set(command, () => ({}));
  world.guests.answers.set("query-named-block-nodes", () => [{ "node-name": "arrive-scsi0" }]);
  await world.records.transact((tx) =>
    tx.put(guestCollection, "100", guestRecord({ vmid: 100, type: "qemu", node: "n2", conf: "" })),
  );
  const servers = new MadeUpServers(world.records);
  const lease = { held: true };
  const copies = new Set<string>();
  const placed: string[] = [];
  const keys: MoveKeys = {
    newKey: () => "k",
    place: async (_process, key) => {
      placed.push(key);
      return { folder: "/run/tls", user: "u" };
    },
    remove: async () => void placed.splice(0),
  };
  servers.allow(100, "m", "n1");
  const host: ReceivePorts = {
    ...world.host,
    records: () => world.records,
    sha1Hex: (text) => text.slice(0, 1),
    mayRun: () => lease.held,
    moves: { servers, keys },
    isOfCopy: (_vmid, volid) => copies.has(volid),
  };
  const arrivals = new Arrivals();
  const { engine } = testEngine();
  engine.register(receiveVmOperation(host, arrivals));
  await engine.start();
  const move = servers.find(100, "m");
  if (move === undefined) throw new Error("nothing was allowed");
  const gone = new AbortController();
  return {
    world,
    servers,
    engine,
    gone,
    lease,
    copies,
    placed,
    receive: (volid: string, text: string) =>
      arrivals.receive(move, volid, {
        format: "raw",
        size: text.length,
        body: (async function* () {
          yield Buffer.from(text);
        })(),
      }),
    running: () => runningVm(host, 100),
    prepare: (more: Partial<MoveOffer> = {}) =>
      arrivals.prepare(engine, move, { ...offer, ...more }, gone.signal),
    start: (wanted?: WantedTransfer, key?: string) => arrivals.start(move, wanted, key),
    idle: () =>
      vi.waitFor(() => expect(engine.counts()).toMatchObject({ running: 0, waiting: 0 }), {
        timeout: 30_000,
      }),
    close: async () => {
      await engine.stop();
      world.remove();
    },
  };
}

it("waits with its disks until it is ours, and goes on then", async () => {
  const { prepare, start, servers, running, idle, world, close } = await target();
  const { volumes } = await prepare();
  await start();
  expect(volumes).toEqual({ [volume.volid]: "local:100/vm-100-disk-0.raw" });
  const process = running() as unknown as { qmp: { commands: { name: string; args: object }[] } };
  const said = () => process.qmp.commands.map(({ name }) => name);
  expect(said()).toEqual(expect.arrayContaining(["block-export-add", "migrate-incoming"]));
  expect(said()).not.toContain("cont");
  await servers.handOver({ vmid: 100, moveId: "m" }, withVolumes(conf, volumes));
  await idle();
  expect(said().slice(-8)).toEqual([
    "nbd-server-stop",
    "query-named-block-nodes",
    "blockdev-del",
    "cont",
    "query-status",
    "announce-self",
    // Also of a move that was encrypted, before a crash.
    "migrate-set-parameters",
    "object-del",
  ]);
  expect(world.values(100)["scsi0"]).toBe("local:100/vm-100-disk-0.raw,size=1M");
  await close();
});

it.skipIf(process.getuid?.() !== 0)(
  "is urgent from the start of its QEMU until it runs here, or does not come, and no longer",
  async () => {
    const usual = getPriority();
    const urgent = Math.min(usual, -5);
    const came = await target();
    const { volumes } = await came.prepare();
    expect(getPriority()).toBe(usual);
    await came.start();
    expect(getPriority()).toBe(urgent);
    await came.servers.handOver({ vmid: 100, moveId: "m" }, withVolumes(conf, volumes));
    await came.idle();
    expect(getPriority()).toBe(usual);
    await came.close();
    const stayed = await target();
    await stayed.prepare();
    await stayed.start();
    await stayed.start();
    expect(getPriority()).toBe(urgent);
    stayed.gone.abort();
    await stayed.idle();
    expect(getPriority()).toBe(usual);
    await stayed.close();
  },
);

it("takes what goes by its name in place of a copy that is kept here, which it stays when the VM does not come", async () => {
  const { prepare, receive, copies, gone, idle, world, close } = await target();
  const cloudinit = { ...volume, volid: "far:100/vm-100-cloudinit.raw", key: "ide2", isLive: false };
  const plugin = world.host.storages.plugin("local");
  const kept = await plugin.alloc({ vmid: 100, name: "vm-100-cloudinit.raw", format: "raw", size: 1024 });
  await prepare({ volumes: [volume, cloudinit] });
  const text = "new".padEnd(512, ".");
  await expect(receive(cloudinit.volid, text)).rejects.toThrow(/already exists/);
  copies.add(`local:${kept}`);
  expect(await receive(cloudinit.volid, text)).toBe(`local:${kept}`);
  expect(readFileSync(plugin.path(kept), "utf8")).toBe(text);
  gone.abort();
  await idle();
  const left = await plugin.list({ content: ["images"], vmid: 100 });
  expect(left.map(({ volname }) => volname)).toEqual([kept]);
  await close();
});

it("takes RAM by several connections as far as its QEMU can", async () => {
  const { prepare, start, running, world, gone, idle, close } = await target();
  world.guests.answers.set("query-migrate-capabilities", () => [{ capability: "multifd", state: false }]);
  world.guests.answers.set("migrate-set-parameters", (args) => {
    if ((args as Record<string, unknown>)["multifd-compression"] === "zstd")
      throw qmpRefused("VM 100", "migrate-set-parameters", "GenericError", "does not accept value 'zstd'");
    return {};
  });
  await prepare({ volumes: [], conf: "name: g\n" });
  const wanted = { multifd: true, channels: 3, compressions: ["zstd", "zlib"], plain: false } as const;
  expect(await start(wanted)).toEqual({ transfer: { channels: 3, compression: "zlib" } });
  const process = running() as unknown as { qmp: { commands: { name: string; args: object }[] } };
  const said = process.qmp.commands.slice(-3);
  expect(said.map(({ args }) => args)).toMatchObject([
    { "multifd-channels": 3, "multifd-compression": "zlib" },
    { capabilities: [{ capability: "multifd", state: true }] },
    {},
  ]);
  expect(said.at(-1)?.name).toBe("migrate-incoming");
  gone.abort();
  await idle();
  await close();
});

it("takes nothing but what is encrypted with the key that it was told, until it goes on", async () => {
  const { prepare, start, servers, running, placed, world, idle, close } = await target();
  for (const command of ["object-add", "object-del"]) world.guests.answers.set(command, () => ({}));
  await prepare({ volumes: [], conf: "name: g\n" });
  const wanted = { multifd: true, channels: 3, compressions: [], plain: true } as const;
  expect(await start(wanted, "k")).toEqual({ isEncrypted: true });
  expect(placed).toEqual(["k"]);
  const process = running() as unknown as { qmp: { commands: { name: string; args: object }[] } };
  const said = () => process.qmp.commands.map(({ name, args }) => ({ name, ...args }));
  const key = { "qom-type": "tls-creds-psk", id: "move-key", endpoint: "server", dir: "/run/tls" };
  expect(said()).toContainEqual(expect.objectContaining({ name: "object-add", ...key }));
  expect(said()).toContainEqual(
    expect.objectContaining({ name: "migrate-set-parameters", "tls-creds": "move-key" }),
  );
  expect(said().at(-1)?.name).toBe("migrate-incoming");
  await servers.handOver({ vmid: 100, moveId: "m" }, "name: g\n");
  await idle();
  expect(placed).toEqual([]);
  expect(said().slice(-2)).toEqual([
    expect.objectContaining({ name: "migrate-set-parameters", "tls-creds": "" }),
    { name: "object-del", id: "move-key" },
  ]);
  await close();
});

it("says why its QEMU does not take what is encrypted, and waits for the rest", async () => {
  const { prepare, start, running, placed, world, gone, idle, close } = await target();
  world.guests.answers.set("object-add", () => {
    throw qmpRefused("VM 100", "object-add", "GenericError", "TLS credentials support requires GNUTLS");
  });
  await prepare({ volumes: [], conf: "name: g\n" });
  expect(await start(undefined, "k")).toEqual({ refused: expect.stringContaining("requires GNUTLS") });
  expect(placed).toEqual([]);
  const process = running() as unknown as { qmp: { commands: { name: string; args: object }[] } };
  expect(process.qmp.commands.at(-1)?.name).toBe("migrate-incoming");
  gone.abort();
  await idle();
  await close();
});

it("stands still where it stood still", async () => {
  const { prepare, start, servers, running, idle, close } = await target();
  await prepare({ isPaused: true, volumes: [], conf: "name: g\n" });
  await start();
  await servers.handOver({ vmid: 100, moveId: "m" });
  await idle();
  const process = running() as unknown as { qmp: { commands: { name: string }[] } };
  expect(process.qmp.commands.map(({ name }) => name)).not.toContain("cont");
  await close();
});

it("leaves nothing where who offers it is gone", async () => {
  const { prepare, start, gone, running, idle, servers, world, close } = await target();
  await prepare();
  await start();
  gone.abort();
  await idle();
  expect(running()).toBeUndefined();
  expect(world.images(100)).toEqual([]);
  expect(servers.owner(100)).toBe("n2");
  expect(servers.find(100, "m")).toBeUndefined();
  await close();
});

it("is ours where it was handed over before who offered it was gone", async () => {
  const { prepare, start, gone, running, idle, servers, close } = await target();
  await prepare();
  await start();
  const handed = servers.handOver({ vmid: 100, moveId: "m" });
  gone.abort();
  await handed;
  await idle();
  expect(servers.owner(100)).toBe("n1");
  expect(running()).toBeDefined();
  await close();
});

it("says what it lacks", async () => {
  const { prepare, idle, close } = await target();
  await expect(prepare({ volumes: [{ ...volume, storage: "none" }] })).rejects.toThrow(
    "storage 'none' does not exist",
  );
  await idle();
  await close();
});

it("is not started while its node may not run it: under HA, without the lease", async () => {
  const { prepare, start, lease, running, gone, idle, close } = await target();
  lease.held = false;
  await prepare();
  const starting = start();
  await new Promise((done) => setTimeout(done, 150));
  expect(running()).toBeUndefined();
  lease.held = true;
  await starting;
  expect(running()).toBeDefined();
  gone.abort();
  await idle();
  await close();
});
