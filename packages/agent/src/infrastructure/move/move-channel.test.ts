// Two agents and a move between them, over real TLS: who is let in, and what gets through.
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer, connect, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type { MoveOffer, MoveReceiver } from "@gpve/domain/guest/move-channel.ts";
import type { RamTransfer } from "@gpve/domain/vm/migrate/ram-transfer.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import {
  AGENT_ROLE,
  createAuthority,
  createKeyPair,
  issue,
  privateKeyPem,
  readCertificate,
} from "@gpve/kit/pki/x509.ts";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { listenForServers, type AgentListener, type ListenerTls } from "../../presentation/grpc/listener.ts";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { FakeGuests } from "../../testing/fake-guests.ts";
import { supervisorBinary } from "../supervisor/build.ts";
import { MoveDialer } from "./move-dialer.ts";
import { MoveDoor } from "./move-door.ts";
import { MOVE_PROTOCOL } from "./move-wire.ts";

const offer: MoveOffer = { type: "qemu", conf: "name: g\n", isRunning: true, volumes: [] };
const quiet = new AbortController().signal;
/** While it is asked for, no server answers. */
const UNHEARD = 666;

const root = join(import.meta.dirname, "../../../../..");
const KEY = "5e".repeat(32);
let carrier: string;
let folder: string;
let identities: { readonly source: ListenerTls; readonly target: ListenerTls; readonly other: ListenerTls };
let listener: AgentListener;
let guest: Server;
let move: GuestMove;
let goneSignal: AbortSignal | undefined;
let received = "";
let taken: RamTransfer | undefined;
let isEncrypted: true | undefined;
const started: unknown[] = [];
const keys: unknown[] = [];
const files: string[] = [];
const announced: number[] = [];

const receiver: MoveReceiver = {
  find: (vmid, id) =>
    vmid === UNHEARD
      ? Promise.reject(new AppError("store.unavailable", "no server is in reach"))
      : Promise.resolve(vmid === 100 && id === "m" ? move : undefined),
  prepare: (_move, { conf }, gone) => {
    goneSignal = gone;
    return conf === "bad" ? Promise.reject(new Error("no room")) : Promise.resolve({ volumes: { a: "b" } });
  },
  receive: async (_move, volid, { body }) => {
    if (volid === "bad") throw new Error("disk full");
    for await (const chunk of body) received += Buffer.from(chunk).toString();
    return `${volid}-there`;
  },
  start: async (_move, wanted, key) => {
    started.push(wanted);
    keys.push(key);
    if (key !== undefined && isEncrypted) return { isEncrypted };
    if (key !== undefined) return { refused: "no TLS" };
    return given({ transfer: taken });
  },
  announce: async ({ vmid }) => void announced.push(vmid),
  socketOf: () => ({ path: join(folder, "guest") }),
  clusters: {
    begin: async () => ({
      take: async ({ name, body }) => {
        if (name === "bad") throw new Error("no such place");
        let text = "";
        for await (const chunk of body) text += Buffer.from(chunk).toString();
        files.push(`${name}=${text}`);
      },
      finish: async () => void files.push("whole"),
      abandon: async () => void files.push("abandoned"),
    }),
  },
  volumes: {
    pack: async (name) => {
      if (name !== "demo") throw new AppError("object.not_found", `nothing of ${name} is here`);
      const body = (async function* () {
        for (const part of ["par", "cel"]) yield Buffer.from(part);
      })();
      return { size: 6, body, close: async () => void files.push("closed") };
    },
  },
  standbys: {
    followEnd: (name) => {
      if (name !== "demo") throw new AppError("object.not_found", `nobody follows ${name}`);
      return { path: join(folder, "guest"), ownerUid: process.getuid?.() ?? 0 };
    },
    followPlace: async (name, address) => {
      if (name === "odd") return { port: 0, secret: "none" };
      if (name === "slow") await new Promise<void>(() => undefined);
      if (name !== "demo")
        throw new AppError("feature.unsupported", `${name} is followed by way of the agent`);
      return { port: address === "127.0.0.1" ? 4711 : 1, secret: KEY };
    },
  },
};

async function identity(name: string): Promise<ListenerTls> {
  const authority = await createAuthority("agents", Date.now());
  const pair = await createKeyPair();
  const request = { commonName: name, days: 1, now: Date.now(), role: AGENT_ROLE } as const;
  const certPem = await issue(authority, pair.keys.publicKey, request);
  return { caPem: authority.certPem, certPem, keyPem: await privateKeyPem(pair.keys.privateKey) };
}

const fingerprint = ({ certPem }: ListenerTls): string => readCertificate(certPem).fingerprint;
const dialer = (as: ListenerTls): MoveDialer =>
  new MoveDialer({ identity: () => as, folder: join(folder, "run"), carrier });

beforeAll(async () => {
  const sourceFolder = join(root, "packages/supervisor");
  carrier = existsSync("/usr/bin/cc")
    ? await supervisorBinary({ sourceFolder, cacheFolder: join(root, ".cache") })
    : "/nowhere";
  identities = {
    source: await identity("n1"),
    target: await identity("n2"),
    other: await identity("n3"),
  };
});
beforeEach(async () => {
  received = "";
  taken = undefined;
  isEncrypted = undefined;
  started.length = 0;
  keys.length = 0;
  files.length = 0;
  folder = mkdtempSync(join(tmpdir(), "gpve-move-"));
  const door = new MoveDoor({ node: "n2", receiver, clock: systemClock, log: silentLogger, carrier });
  listener = await listenForServers({
    agent: { node: "n2", call: () => Promise.reject(new Error("not asked here")) },
    address: "127.0.0.1",
    port: 0,
    tls: identities.target,
    moves: { protocol: MOVE_PROTOCOL, accept: (socket, proven) => door.accept(socket, proven) },
  });
  guest = createServer((socket) => socket.on("data", (data) => socket.write(`heard ${data.toString()}`)));
  await new Promise<void>((done) => guest.listen(join(folder, "guest"), done));
  move = {
    vmid: 100,
    id: "m",
    from: { node: "n1", address: "", port: 0, fingerprints: [fingerprint(identities.source)] },
    to: {
      node: "n2",
      address: "127.0.0.1",
      port: listener.port,
      fingerprints: ["AA:BB", fingerprint(identities.target)],
    },
    at: 0,
  };
});
afterEach(async () => {
  guest.close();
  await listener.close();
  rmSync(folder, { recursive: true, force: true });
});
afterAll(() => undefined);

describe("the line between two agents", () => {
  test("carries offers, volumes and what guests say to each other", async () => {
    const peer = await dialer(identities.source).connect(move, quiet);
    expect(await peer.prepare(offer, quiet)).toEqual({ volumes: { a: "b" }, announces: true });
    const name = await peer.send(
      "local:x",
      {
        format: "raw",
        size: 4,
        body: (async function* () {
          yield Buffer.from("disk");
        })(),
      },
      { signal: quiet, progress: () => undefined },
    );
    expect([name, received]).toEqual(["local:x-there", "disk"]);
    await peer.start(quiet);
    // Nobody waits for an answer, and none is taken for that to something else.
    peer.announce?.();
    await peer.start(quiet);
    expect(announced).toEqual([100]);
    const process = await new FakeGuests().startQemu({
      id: "7",
      label: "VM 7",
      program: "",
      args: [],
      files: [],
    });
    const ram = await peer.forward(process, "ram");
    expect(process.files).toEqual([ram.path]);
    const socket = connect(ram.path);
    socket.write("you");
    const said = await new Promise<string>((done) => socket.once("data", (data) => done(data.toString())));
    expect(said).toBe("heard you");
    await ram.close();
    expect(peer.lost.aborted).toBe(false);
    expect(goneSignal?.aborted).toBe(false);
    peer.close();
    await new Promise<void>((done) => goneSignal?.addEventListener("abort", () => done()));
    expect(peer.lost.aborted).toBe(false);
  });

  test("agrees on how RAM is sent, and carries several connections in the order they were made", async () => {
    const peer = await dialer(identities.source).connect(move, quiet);
    await peer.prepare(offer, quiet);
    expect(await peer.start(quiet)).toEqual({});
    const wanted = { multifd: true, channels: 4, compressions: ["zstd" as const], plain: true };
    taken = { channels: 4, compression: "zstd" };
    expect(await peer.start(quiet, wanted)).toEqual({ transfer: taken });
    expect(started).toEqual([undefined, wanted]);
    taken = { channels: 4, compression: "lz9" as "zstd" };
    await expect(peer.start(quiet, wanted)).rejects.toThrow("in a way that this node does not know");
    // QEMU takes the first of them for the one that leads the others.
    const order: Promise<string>[] = [];
    guest.removeAllListeners("connection");
    guest.on("connection", (socket) =>
      order.push(new Promise((done) => socket.once("data", (data) => done(data.toString())))),
    );
    const process = await new FakeGuests().startQemu({
      id: "8",
      label: "VM 8",
      program: "",
      args: [],
      files: [],
    });
    const ram = await peer.forward(process, "ram");
    const sockets = [0, 1, 2, 3, 4].map((at) => {
      const socket = connect(ram.path);
      socket.on("error", () => undefined);
      socket.write(String(at));
      return socket;
    });
    await vi.waitFor(() => expect(order).toHaveLength(5), { timeout: 30_000 });
    expect(await Promise.all(order)).toEqual(["0", "1", "2", "3", "4"]);
    for (const socket of sockets) socket.destroy();
    await ram.close();
    peer.close();
  });

  test.skipIf(!existsSync("/usr/bin/cc"))(
    "has RAM that QEMU encrypts come by a line of its own, which ends with the move",
    async () => {
      const peer = await dialer(identities.source).connect(move, quiet);
      await peer.prepare(offer, quiet);
      isEncrypted = true;
      const early: unknown[] = [];
      const { direct, transfer } = await peer.start(quiet, undefined, KEY, (place) => early.push(place));
      expect(early).toEqual([direct]);
      expect([transfer, keys]).toEqual([undefined, [KEY]]);
      if (direct === undefined) throw new Error("there is none");
      expect(direct.secret).not.toBe(KEY);
      const vm = { id: "9", label: "VM 9", program: "", args: [], files: [] };
      const process = await new FakeGuests().startQemu(vm);
      const ram = await peer.forwardDirect?.(process, direct);
      expect(process.files).toEqual([ram?.path]);
      const socket = connect(ram?.path ?? "");
      socket.on("error", () => undefined);
      const ended = new Promise((done) => socket.once("close", done));
      socket.write("you");
      const said = await new Promise<string>((done) => socket.once("data", (data) => done(data.toString())));
      expect(said).toBe("heard you");
      // Nobody comes after the first.
      await expect(peer.forwardDirect?.(process, direct)).rejects.toThrow("Connection refused");
      peer.close();
      await ended;
      await ram?.close();
      expect(process.files).toEqual([]);
    },
  );

  test("says why RAM does not come by a line of its own, and what waits for it then", async () => {
    const peer = await dialer(identities.source).connect(move, quiet);
    await peer.prepare(offer, quiet);
    expect(await peer.start(quiet, undefined, KEY)).toEqual({ refused: "no TLS" });
    expect(await peer.start(quiet, undefined, "no key")).toEqual({ refused: "it knows nothing of it" });
    expect(keys).toEqual([KEY, undefined]);
    peer.close();
    keys.length = 0;
    isEncrypted = true;
    const found = carrier;
    carrier = "/nowhere";
    const door = new MoveDoor({ node: "n2", receiver, clock: systemClock, log: silentLogger, carrier });
    carrier = found;
    const broken = await listenForServers({
      agent: { node: "n2", call: () => Promise.reject(new Error("not asked here")) },
      address: "127.0.0.1",
      port: 0,
      tls: identities.target,
      moves: { protocol: MOVE_PROTOCOL, accept: (socket, proven) => door.accept(socket, proven) },
    });
    const there = { ...move, to: { ...move.to, port: broken.port } };
    const other = await dialer(identities.source).connect(there, quiet);
    await other.prepare(offer, quiet);
    // What waited for it encrypted is started anew.
    expect(await other.start(quiet, undefined, KEY)).toEqual({
      refused: expect.stringContaining("without a word"),
    });
    expect(keys).toEqual([KEY, undefined]);
    other.close();
    await broken.close();
  });

  test("tells one end that the other is gone", async () => {
    const peer = await dialer(identities.source).connect(move, quiet);
    await peer.prepare(offer, quiet);
    await peer.start(quiet);
    const lost = new Promise<void>((done) => peer.lost.addEventListener("abort", () => done()));
    await listener.close();
    await lost;
    expect((peer.lost.reason as Error).message).toBe("node 'n2' hung up");
  });

  test("says why the other end does not want it", async () => {
    const peer = await dialer(identities.source).connect(move, quiet);
    await expect(peer.prepare({ ...offer, conf: "bad" }, quiet)).rejects.toThrow("node 'n2': no room");
    const empty = { format: "raw", size: 0, body: (async function* () {})() };
    await expect(peer.send("bad", empty, { signal: quiet, progress: () => undefined })).rejects.toThrow(
      "node 'n2': disk full",
    );
    peer.close();
  });

  test("says so when nobody can be asked who may", async () => {
    const unheard = { ...move, vmid: UNHEARD };
    await expect(dialer(identities.source).connect(unheard, quiet)).rejects.toThrow(
      "node 'n2': no server is in reach",
    );
  });

  test("carries the control plane of a virtual cluster, whole or not at all", async () => {
    await expect(dialer(identities.source).clusterLine(move, quiet)).rejects.toThrow("no server has allowed");
    move = { ...move, purpose: "vcluster", vcluster: "demo" };
    const bytes = (text: string) =>
      (async function* () {
        yield Buffer.from(text);
      })();
    const line = await dialer(identities.source).clusterLine(move, quiet);
    await line.send({ name: "pki/ca.key", size: 3, body: bytes("key") });
    await line.send({ name: "db/empty", size: 0, body: bytes("") });
    await line.finish();
    expect(files).toEqual(["pki/ca.key=key", "db/empty=", "whole"]);
    line.close();
    files.length = 0;
    const second = await dialer(identities.source).clusterLine(move, quiet);
    await expect(second.send({ name: "pki/ca.key", size: 3, body: bytes("longer") })).rejects.toThrow(
      "was changed while it was sent",
    );
    second.close();
    await expect.poll(() => files).toEqual(["abandoned"]);
    const third = await dialer(identities.source).clusterLine(move, quiet);
    await third.send({ name: "bad", size: 3, body: bytes("key") });
    await expect(third.finish()).rejects.toThrow("node 'n2': no such place");
    // The note is for that, and not for a guest.
    await expect(dialer(identities.source).connect(move, quiet)).rejects.toThrow("no server has allowed");
    await expect(
      dialer(identities.source).clusterLine({ ...move, vcluster: "x", id: "none" }, quiet),
    ).rejects.toThrow("no server has allowed this node to send that virtual cluster");
  });

  test("carries what the store of a virtual cluster commits, both ways, by a note of its own", async () => {
    let heard = "";
    const store = createServer((socket) => {
      socket.on("data", (data) => (heard += data.toString()));
      socket.write("revision 7");
    });
    await new Promise<void>((done) => store.listen(join(folder, "store"), done));
    const end = { path: join(folder, "store"), ownerUid: process.getuid?.() ?? 0 };
    const stop = new AbortController();
    const dial = () => dialer(identities.source).standbyLine(move, end, stop.signal);
    move = { ...move, purpose: "vcluster", vcluster: "demo" };
    await expect(dial()).rejects.toThrow("no server has allowed this node to send that virtual cluster");
    move = { ...move, purpose: "standby" };
    const line = dial();
    await expect.poll(() => heard).toBe("heard revision 7");
    stop.abort();
    await line;
    move = { ...move, vcluster: "none" };
    const again = dialer(identities.source).standbyLine(move, end, quiet);
    await expect(again).rejects.toThrow("node 'n2': nobody follows none");
    store.close();
  });

  test("says where a line that lasts is waited for, by the same note", async () => {
    const ask = (): Promise<unknown> => dialer(identities.source).standbyPlace(move, quiet);
    move = { ...move, purpose: "vcluster", vcluster: "demo" };
    await expect(ask()).rejects.toThrow("no server has allowed this node to send that virtual cluster");
    move = { ...move, purpose: "standby" };
    expect(await ask()).toEqual({ port: 4711, secret: KEY });
    await expect(dialer(identities.other).standbyPlace(move, quiet)).rejects.toThrow("no server has allowed");
    move = { ...move, vcluster: "etcd" };
    await expect(ask()).rejects.toThrow("node 'n2': etcd is followed by way of the agent");
    move = { ...move, vcluster: "odd" };
    await expect(ask()).rejects.toThrow("says no place");
    move = { ...move, vcluster: "slow" };
    await expect(dialer(identities.source).standbyPlace(move, AbortSignal.timeout(300))).rejects.toThrow(
      "hung up",
    );
  });

  test("brings volumes of a virtual cluster to the node that asks for them, by a note of its own", async () => {
    const ask = () => dialer(identities.source).clusterVolumes(move, quiet);
    move = { ...move, purpose: "vcluster", vcluster: "demo" };
    await expect(ask()).rejects.toThrow("no server has allowed");
    move = { ...move, purpose: "volumes" };
    const parcel = await ask();
    let text = "";
    for await (const chunk of parcel.body) text += Buffer.from(chunk).toString();
    expect([parcel.size, text]).toEqual([6, "parcel"]);
    await parcel.close();
    await expect.poll(() => files).toContain("closed");
    move = { ...move, vcluster: "none" };
    await expect(ask()).rejects.toThrow("node 'n2': nothing of none is here");
  });

  test("is for the two that a server has named, and for nothing else", async () => {
    await expect(dialer(identities.other).connect(move, quiet)).rejects.toThrow("no server has allowed");
    await expect(dialer(identities.source).connect({ ...move, id: "x" }, quiet)).rejects.toThrow(
      "no server has allowed",
    );
    const elsewhere = { ...move, to: { ...move.to, fingerprints: ["AA:BB"] } };
    await expect(dialer(identities.source).connect(elsewhere, quiet)).rejects.toThrow(
      "another certificate answers there",
    );
    const nowhere = { ...move, to: { ...move.to, port: 1 } };
    await expect(dialer(identities.source).connect(nowhere, quiet)).rejects.toThrow("cannot reach the agent");
    const called = new AbortController();
    const dialed = dialer(identities.source).connect(move, called.signal);
    called.abort();
    await expect(dialed).rejects.toThrow("the move was called off");
  });
});
