// Two nodes' processes that keep lines, in this one: real sockets and TLS, and the agents that tell them what to do.
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "@gpve/kit/clock.ts";
import { LineProcess } from "./line-process.ts";
import { LINE_TLS } from "./line-tls.ts";
import { keptLines } from "../../../testing/kept-lines.ts";

const POLL = { timeout: 10_000, interval: 10 };
const ID = "standby-demo-5";

let folder: string;
const closing: (() => unknown)[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-lines-"));
});
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
  rmSync(folder, { recursive: true, force: true });
});

function node(name: string) {
  const place = join(folder, name);
  mkdirSync(place);
  const socket = join(place, "agent.sock");
  const { processes, starts, end, runs } = keptLines(socket);
  closing.push(end);
  const stores = { lendLinks: async () => place };
  const self = { program: "gpve", args: ["main.js"], folders: ["/srv/gpve"] };
  const agent = (): LineProcess => {
    const made = new LineProcess({ processes, stores, self, clock: systemClock });
    closing.push(() => made.leave());
    return made;
  };
  return { place, agent, end, starts, runs };
}

/** What a store or a standby has there: it says its name to whoever comes, and hears what he says. */
async function speaker(path: string, name: string) {
  const open = new Set<Socket>();
  const heard: string[] = [];
  const server: Server = createServer((socket) => {
    open.add(socket);
    socket.on("error", () => socket.destroy());
    socket.on("close", () => open.delete(socket));
    socket.on("data", (chunk) => heard.push(String(chunk)));
    socket.write(name);
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  const close = async (): Promise<void> => {
    for (const socket of open) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  const cut = (): void => open.forEach((socket) => socket.destroy());
  closing.push(close);
  return { heard, cut, close, open: () => open.size, end: { path, ownerUid: 0, isLasting: true } as const };
}

async function both() {
  const [a, b] = [node("a"), node("b")];
  const store = await speaker(join(a.place, "lead.sock"), "store");
  const standby = await speaker(join(b.place, "follow.sock"), "standby");
  return { a, b, store, standby, here: a.agent(), there: b.agent() };
}

const openLine = async ({ store, standby, here, there }: Awaited<ReturnType<typeof both>>): Promise<void> => {
  const place = await there.place(ID, "127.0.0.1", standby.end);
  await here.open({ id: ID, address: "127.0.0.1", place, end: store.end });
};

describe("a line that lasts", () => {
  test("leads from the store to the standby, and stays when both agents go", async () => {
    const all = await both();
    const { a, here, there, store, standby } = all;
    expect(await here.isOpen(ID)).toBe(false);
    expect(a.runs()).toBe(false);
    await openLine(all);
    expect(await here.isOpen(ID)).toBe(true);
    await expect.poll(() => [store.heard, standby.heard], POLL).toEqual([["standby"], ["store"]]);
    expect(a.starts).toMatchObject([
      {
        id: "line",
        args: ["main.js", "vc-line"],
        hostNetwork: true,
        files: [
          { path: "/srv/gpve", access: "ro" },
          { path: a.place, access: "ro", owned: true },
        ],
      },
    ]);
    here.leave();
    there.leave();
    await systemClock.sleep(50);
    expect(standby.open()).toBe(1);
    // Nobody is there to open it again but who keeps it.
    standby.cut();
    await expect.poll(() => standby.heard, POLL).toEqual(["store", "store"]);
    const next = a.agent();
    await next.adopt();
    expect(next.opened()).toEqual([ID]);
    expect(await next.isOpen(ID)).toBe(true);
    expect(a.starts).toHaveLength(1);
  });

  test("is known to be cut, and is none any more when it is closed", async () => {
    const all = await both();
    const { here, standby, b, there } = all;
    await openLine(all);
    const stop = new AbortController();
    const over = here.whileOpen(ID, stop.signal);
    b.end();
    await over;
    expect([here.opened(), await here.isOpen(ID)]).toEqual([[ID], false]);
    await openLine(all);
    expect(await here.isOpen(ID)).toBe(true);
    const stopped = here.whileOpen(ID, stop.signal);
    stop.abort();
    await stopped;
    expect(standby.open()).toBe(1);
    here.close(ID);
    await expect.poll(() => [here.opened(), standby.open()], POLL).toEqual([[], 0]);
    await here.endIfIdle();
    await there.endIfIdle();
    expect([all.a.runs(), b.runs()]).toEqual([false, false]);
  });

  test("is led to nobody who does not know the secret of that generation", async () => {
    const all = await both();
    const { here, there, store, standby } = all;
    const place = await there.place(ID, "127.0.0.1", standby.end);
    const to = { id: ID, address: "127.0.0.1", place, end: store.end };
    const refused = { code: "node.unavailable" };
    const guessed = { ...place, secret: "5e".repeat(32) };
    await expect(here.open({ ...to, place: guessed })).rejects.toMatchObject(refused);
    await expect(here.open({ ...to, id: "standby-demo-6" })).rejects.toMatchObject(refused);
    // Nor to who names none at all.
    const socket = connectTls({
      ...LINE_TLS,
      port: place.port,
      host: "127.0.0.1",
      rejectUnauthorized: false,
    });
    await new Promise<void>((resolve) => socket.once("error", () => resolve()));
    const plain = connect({ port: place.port, host: "127.0.0.1" });
    plain.on("error", () => plain.destroy());
    plain.write("GET / HTTP/1.1\r\n\r\n");
    await new Promise<void>((resolve) => plain.once("close", () => resolve()));
    expect([here.opened(), standby.heard, store.heard]).toEqual([[], [], []]);
    await here.open(to);
    // A newer one: who knows the former secret does not come again.
    const newer = await there.place(ID, "127.0.0.1", standby.end);
    expect(newer.port).toBe(place.port);
    await expect(here.open(to)).rejects.toMatchObject(refused);
    await here.open({ ...to, place: newer });
    there.keepPlaces([]);
    await expect.poll(standby.open, POLL).toBe(0);
    await expect(here.open({ ...to, place: newer })).rejects.toMatchObject(refused);
  });

  test("is kept out by no crowd that knocks and says nothing, which is bounded", async () => {
    const all = await both();
    const { port } = await all.there.place(ID, "127.0.0.1", all.standby.end);
    const crowd = new Set<Socket>();
    closing.push(() => crowd.forEach((socket) => socket.destroy()));
    for (let at = 0; at < 600; at++) {
      const socket = connect({ port, host: "127.0.0.1" });
      crowd.add(socket);
      socket.on("error", () => socket.destroy());
      socket.on("close", () => crowd.delete(socket));
      await new Promise<void>((resolve) => socket.once("connect", resolve));
    }
    // Long before any of them has had its time.
    await expect.poll(() => crowd.size, { ...POLL, timeout: 4_000 }).toBeLessThanOrEqual(512);
    await openLine(all);
    expect(await all.here.isOpen(ID)).toBe(true);
  });

  test("says whether nobody is let through, or only nobody is at its end yet", async () => {
    const all = await both();
    const { here, there, store, standby } = all;
    await standby.close();
    await expect(openLine(all)).rejects.toMatchObject({ code: "store.unavailable" });
    const gone = createServer();
    await new Promise<void>((resolve) => gone.listen(0, "127.0.0.1", resolve));
    const { port } = gone.address() as AddressInfo;
    await new Promise((resolve) => gone.close(resolve));
    const place = { port, secret: "5e".repeat(32) };
    const to = { id: ID, address: "127.0.0.1", place, end: store.end };
    await expect(here.open(to)).rejects.toMatchObject({ code: "node.unavailable" });
    await expect(there.place(ID, "192.0.2.1", standby.end)).rejects.toThrow("192.0.2.1");
    expect(existsSync(standby.end.path)).toBe(false);
    expect(here.opened()).toEqual([]);
  });
});
