// Which way RAM goes, by what either end can do.
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type { ForwardedSocket, MoveKeys } from "@gpve/domain/guest/move-channel.ts";
import type { RamWay } from "@gpve/domain/vm/migrate/direct-line.ts";
import { qmpRefused } from "@gpve/domain/vm/qmp/qmp-errors.ts";
import { expect, it } from "vitest";
import { FakeGuests } from "../../../testing/fake-guests.ts";
import { readyRam } from "./ram-way.ts";

const end = (node: string) => ({ node, address: "192.0.2.7", port: 1, fingerprints: [] });
const move: GuestMove = { vmid: 100, id: "m", from: end("n1"), to: end("n2"), at: 0 };
const place = { port: 4711, secret: "5e".repeat(32) };
const carried = (path: string, closed: string[] = []): ForwardedSocket => ({
  path,
  allow: () => undefined,
  isExceeded: false,
  close: async () => void closed.push(path),
});

type Dial = (to: typeof place) => void;

async function world(answers: (key: string | undefined, dial?: Dial) => RamWay) {
  const guests = new FakeGuests();
  const objects = new Map<string, unknown>();
  guests.answers.set("object-add", (args) => {
    const { id, ...what } = args as { id: string };
    objects.set(id, what);
    return {};
  });
  guests.answers.set("object-del", (args) => {
    const { id } = args as { id: string };
    if (!objects.delete(id)) throw qmpRefused("VM 100", "object-del", "GenericError", "not found");
    return {};
  });
  const process = await guests.startQemu({ id: "100", label: "VM 100", program: "", args: [], files: [] });
  const placed = new Set<string>();
  const keys: MoveKeys = {
    newKey: () => "k",
    place: async (_process, key) => {
      placed.add(key);
      return { folder: "/run/tls", user: "u" };
    },
    remove: async () => placed.clear(),
  };
  const offered: (string | undefined)[] = [];
  const log: string[] = [];
  const reached: unknown[] = [];
  const closed: string[] = [];
  let failure: Error | undefined;
  const peer = {
    start: async (_signal: AbortSignal, _wanted: unknown, key?: string, dial?: Dial) => {
      offered.push(key);
      return answers(key, dial);
    },
    forward: async (_process: unknown, channel: string) => carried(`/run/${channel}`),
    forwardDirect: async (_process: unknown, to: unknown) => {
      if (failure !== undefined) throw failure;
      reached.push(to);
      return carried("/run/direct", closed);
    },
  };
  const stop = new AbortController();
  const work = {
    keys,
    peer,
    wanted: undefined,
    values: { memory: "128" },
    signal: stop.signal,
    log: (line: string) => void log.push(line),
  };
  return {
    offered,
    log,
    reached,
    closed,
    objects,
    placed,
    guests,
    process,
    stop,
    fail: (err: Error) => (failure = err),
    ready: (more: Partial<Parameters<typeof readyRam>[2]> = {}, which = move) =>
      readyRam(which, process, { ...work, ...more }),
  };
}

it("goes by a line of its own, encrypted by QEMU, whose key lies nowhere then", async () => {
  const { ready, offered, log, reached, objects, placed } = await world(() => ({ direct: place }));
  expect(await ready()).toMatchObject({ ram: { path: "/run/direct" }, isEncrypted: true });
  expect([offered, reached, placed.size]).toEqual([["k"], [place], 0]);
  expect(log).toEqual(["RAM goes by a line of its own, encrypted by QEMU"]);
  const [made] = objects.values();
  expect(made).toMatchObject({
    "qom-type": "tls-creds-psk",
    endpoint: "client",
    dir: "/run/tls",
    username: "u",
  });
  // Once more, where what was sent is not trusted.
  expect(await ready()).toMatchObject({ isEncrypted: true });
  expect(objects.size).toBe(1);
});

it("goes by way of the agents where the other node does not take it otherwise", async () => {
  const transfer = { channels: 4 };
  const { ready, offered, log, objects } = await world(() => ({ transfer, refused: "it has no TLS" }));
  expect(await ready()).toMatchObject({ ram: { path: "/run/ram" }, isEncrypted: false, transfer });
  expect([offered, objects.size]).toEqual([["k"], 0]);
  expect(log).toEqual(["RAM goes by way of the agents: node 'n2': it has no TLS"]);
});

it("is there before the other node's QEMU is, and is cut where that does not take it", async () => {
  const { ready, reached, closed } = await world((_key, dial) => {
    dial?.(place);
    expect(reached).toEqual([place]);
    return { direct: place };
  });
  expect(await ready()).toMatchObject({ ram: { path: "/run/direct" }, isEncrypted: true });
  expect([reached, closed]).toEqual([[place], []]);
  const other = await world((key, dial) => {
    if (key !== undefined) dial?.(place);
    return key === undefined ? {} : { refused: "it has no TLS" };
  });
  expect(await other.ready()).toMatchObject({ isEncrypted: false });
  expect(other.closed).toEqual(["/run/direct"]);
});

it("has the other node begin anew where there is no way to its port", async () => {
  const { ready, offered, log, objects, fail } = await world((key) =>
    key === undefined ? {} : { direct: place },
  );
  fail(new Error("connect: nothing in time"));
  expect(await ready()).toMatchObject({ ram: { path: "/run/ram" }, isEncrypted: false });
  expect([offered, objects.size]).toEqual([["k", undefined], 0]);
  expect(log).toEqual([
    "RAM goes by way of the agents: node 'n2' at 192.0.2.7, port 4711: connect: nothing in time",
  ]);
});

it("has the other node begin anew where this QEMU cannot encrypt", async () => {
  const { ready, offered, log, guests, process } = await world((key) =>
    key === undefined ? {} : { direct: place },
  );
  expect(guests.list()).toEqual([process]);
  process.qmp.answers.set("object-add", () => {
    throw qmpRefused("VM 100", "object-add", "GenericError", "TLS credentials support requires GNUTLS");
  });
  expect(await ready()).toMatchObject({ isEncrypted: false });
  expect(offered).toEqual(["k", undefined]);
  expect(log.join()).toContain("requires GNUTLS");
});

it("is not tried in another way when the move was called off", async () => {
  const { ready, offered, fail, stop } = await world(() => ({ direct: place }));
  fail(new Error("hung up"));
  stop.abort(new Error("called off"));
  await expect(ready()).rejects.toThrow("called off");
  expect(offered).toEqual(["k"]);
});

it("is not offered where agents are the better way, or the only one", async () => {
  const { ready, offered } = await world(() => ({}));
  await ready({ keys: undefined });
  await ready({ values: { memory: String(128 * 1024) } });
  await ready({}, { ...move, isFar: true });
  await ready({}, { ...move, compression: "on" });
  expect(offered).toEqual([undefined, undefined, undefined, undefined]);
});
