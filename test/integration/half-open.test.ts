// Thousands of connections that begin something and never finish it, against a real process: it stays small, and
// whoever comes with a token is served. On loopback, from the same address as the attack.
import { readdirSync, readFileSync } from "node:fs";
import { connect as connectH2, type ClientHttp2Session } from "node:http2";
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { apiOf, startGpve, type Api, type Gpve } from "../support/gpve.ts";
import { DEBUGGED, MemoryInUse } from "../support/memory-in-use.ts";

const MiB = 1024 * 1024;
/** Held open at once, of each kind. */
const COUNT = 600;
/** What an address may hold open at once (STRANGER_LIMITS), with all buffers of TLS and h2, collected or not. */
const MAX_HELD = 512;
/** Files and sockets that the server itself has open for a moment, when descriptors are counted. */
const OWN_AT_MOST = 16;
const MAX_GROWTH = 256 * MiB;
/** The attack goes on after everything it can hold is held: then nothing more is in use, but for caches and code. */
const ROUNDS_TO_FILL = 1;
const ROUNDS_AFTER = 2;
const MAX_GROWTH_AFTER = 8 * MiB;

let gpve: Gpve;
let memory: MemoryInUse;
let api: Api;
let host = "";
let port = 0;
const open: Socket[] = [];
const sessions: ClientHttp2Session[] = [];

const rss = (): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${gpve.process.pid}/status`, "utf8"))?.[1]) * 1024;

const descriptors = (): number => readdirSync(`/proc/${gpve.process.pid}/fd`).length;

function begin(bytes: string | Buffer, alpn?: string): Promise<void> {
  return new Promise((resolve) => {
    const socket =
      alpn === undefined
        ? connectTcp({ host, port })
        : connectTls({ host, port, rejectUnauthorized: false, ALPNProtocols: [alpn] });
    open.push(socket);
    socket.on("error", () => resolve());
    socket.on("close", () => resolve());
    socket.once(alpn === undefined ? "connect" : "secureConnect", () => socket.write(bytes, () => resolve()));
  });
}

/** In batches, so that the machine and not the number of connections sets the pace. */
async function many(count: number, one: (index: number) => Promise<void>): Promise<void> {
  for (let at = 0; at < count; at += 50) {
    await Promise.all(Array.from({ length: Math.min(50, count - at) }, (_, index) => one(at + index)));
  }
}

async function isServed(): Promise<void> {
  const begun = Date.now();
  const answer = await api("GET", "/version");
  expect(answer.status).toBe(200);
  expect(Date.now() - begun).toBeLessThan(30_000);
}

const frame = (type: number, flags: number, stream: number, payload: Buffer): Buffer => {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
};
const PREFACE = Buffer.concat([
  Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
  frame(4, 0, 0, Buffer.alloc(0)),
]);

beforeAll(async () => {
  gpve = await startGpve({ env: DEBUGGED });
  memory = await MemoryInUse.open(gpve);
  api = apiOf(gpve.credentials);
  const url = new URL(gpve.credentials.url);
  [host, port] = [url.hostname, Number(url.port)];
  // What a first round of TLS and requests costs is not the attack's.
  for (let round = 0; round < 20; round++) await isServed();
});

afterAll(async () => {
  memory.close();
  for (const session of sessions) session.destroy();
  for (const socket of open) socket.destroy();
  await gpve.stop();
});

describe("half-open requests", () => {
  const kinds: readonly (readonly [string, string | Buffer, string | undefined])[] = [
    ["connections that say nothing", "\x16", undefined],
    ["plain HTTP with half a head", "GET / HTTP/1.1\r\nHost: x\r\n", undefined],
    ["HTTP/1.1 with half a head", "GET /api2/json/version HTTP/1.1\r\nX: ", "http/1.1"],
    [
      "HTTP/1.1 with half a body",
      `POST /api2/json/access/ticket HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 60000\r\n\r\n${"a".repeat(30_000)}`,
      "http/1.1",
    ],
    ["h2 that only begins", PREFACE, "h2"],
    [
      "h2 with a head that goes on and on",
      Buffer.concat([
        PREFACE,
        frame(1, 0, 1, Buffer.from([0x82])),
        ...Array.from({ length: 64 }, () => frame(9, 0, 1, Buffer.alloc(900, 0x40))),
      ]),
      "h2",
    ],
    [
      "h2 with pings and settings",
      Buffer.concat([
        PREFACE,
        ...Array.from({ length: 2_000 }, (_, i) =>
          i % 2 === 0 ? frame(6, 0, 0, Buffer.alloc(8)) : frame(4, 0, 0, Buffer.alloc(0)),
        ),
      ]),
      "h2",
    ],
    [
      "h2 with streams that are begun and reset",
      Buffer.concat([
        PREFACE,
        ...Array.from({ length: 500 }, (_, i) =>
          Buffer.concat([
            frame(1, 4, 2 * i + 1, Buffer.from([0x83, 0x84, 0x87])),
            frame(3, 0, 2 * i + 1, Buffer.alloc(4)),
          ]),
        ),
      ]),
      "h2",
    ],
  ];

  test("thousands of them leave the server small, and it serves", async () => {
    const idle = descriptors();
    const before = rss();
    let filled = 0;
    let held = 0;
    const table: string[] = [];
    for (let round = 1; round <= ROUNDS_TO_FILL + ROUNDS_AFTER; round++) {
      for (const [name, bytes, alpn] of kinds) {
        await many(COUNT, () => begin(bytes, alpn));
        held = Math.max(held, descriptors() - idle);
        await isServed();
        table.push(`${round}. ${name}: ${((rss() - before) / MiB).toFixed(0)} MiB more`);
        expect(rss() - before, table.join("\n")).toBeLessThan(MAX_GROWTH);
      }
      const inUse = await memory.bytes();
      table.push(`${round}. in use: ${(inUse / MiB).toFixed(1)} MiB`);
      if (round <= ROUNDS_TO_FILL) filled = inUse;
      expect(inUse - filled, table.join("\n")).toBeLessThan(MAX_GROWTH_AFTER);
    }
    console.log(
      `half-open requests, ${COUNT} of each kind:\n  ${table.join("\n  ")}\n  ${held} open at most`,
    );
    expect(held).toBeGreaterThan(0);
    expect(held).toBeLessThanOrEqual(MAX_HELD + OWN_AT_MOST);
  });

  test("a peer that could only join has one stream, ten seconds and 64 KiB", async () => {
    const session = connectH2(gpve.credentials.url, { rejectUnauthorized: false, ALPNProtocols: ["h2"] });
    sessions.push(session);
    session.on("error", () => undefined);
    const begun = Date.now();
    const closed = new Promise<number>((resolve) => session.on("close", () => resolve(Date.now() - begun)));
    const settings = await new Promise<{ maxConcurrentStreams?: number | undefined }>((resolve) =>
      session.once("remoteSettings", resolve),
    );
    expect(settings.maxConcurrentStreams).toBe(1);
    const lasted = await closed;
    expect(lasted).toBeGreaterThan(5_000);
    expect(lasted).toBeLessThan(25_000);
    const greedy = connectH2(gpve.credentials.url, { rejectUnauthorized: false, ALPNProtocols: ["h2"] });
    sessions.push(greedy);
    greedy.on("error", () => undefined);
    const cut = new Promise<void>((resolve) => greedy.on("close", () => resolve()));
    const stream = greedy.request({
      ":method": "POST",
      ":path": "/gpve.agent.v1.ServerService/Join",
      "content-type": "application/grpc",
    });
    stream.on("error", () => undefined);
    const from = Date.now();
    // A message of 1 GiB is announced.
    stream.write(Buffer.concat([Buffer.from([0, 0x40, 0, 0, 0]), Buffer.alloc(200 * 1024)]));
    await cut;
    // At once, and not when its time is over.
    expect(Date.now() - from).toBeLessThan(lasted);
    await isServed();
  });
});
