import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { type Duplex, duplexPair, Writable } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { LineWindow, sendWithin, tellTaken } from "./line-window.ts";

const MIB = 1024 ** 2;

/** A guest that sends all it may, a line that takes everything, and how much of it has come. */
function sender(window?: LineWindow) {
  const [guest, from] = duplexPair();
  const [to, line] = duplexPair({ highWaterMark: 64 * MIB });
  let came = 0;
  line.on("data", (chunk: Buffer) => (came += chunk.length));
  sendWithin(from, to, window);
  for (let at = 0; at < 256; at++) guest.write(Buffer.alloc(MIB / 16));
  return {
    guest,
    came: async () => {
      for (let times = 0; times < 500; times++) await turn();
      return came;
    },
  };
}

test("no more is under way than the other end can take soon", async () => {
  const window = new LineWindow();
  window.took(0);
  const { came, guest } = sender(window);
  const first = await came();
  expect(first).toBeGreaterThan(2 * MIB);
  expect(first).toBeLessThan(4 * MIB);
  window.took(MIB);
  const second = await came();
  expect(second - first).toBeGreaterThan(MIB / 2);
  expect(second).toBeLessThan(5 * MIB);
  // What comes late says less than what is known.
  window.took(MIB / 2);
  expect(await came()).toBe(second);
  guest.destroy();
});

test("to one that tells nothing, all is sent that it takes", async () => {
  const { came, guest } = sender();
  expect(await came()).toBe(16 * MIB);
  guest.destroy();
});

test("what was taken is told at the beginning, and every now and then", async () => {
  const [near, from] = duplexPair();
  const [to, guest] = duplexPair();
  const told: number[] = [];
  tellTaken(from, to, (bytes) => void told.push(bytes));
  expect(told).toEqual([0]);
  let came = 0;
  guest.on("data", (chunk: Buffer) => (came += chunk.length));
  const ended = new Promise<void>((done) => guest.once("end", done));
  near.end(Buffer.alloc(MIB));
  await ended;
  expect(came).toBe(MIB);
  expect(told.at(-1)).toBeGreaterThanOrEqual(MIB / 2);
  expect(told).toEqual(told.toSorted((a, b) => a - b));
});

test("a guest that takes nothing is told nothing of, and nothing is read for it", async () => {
  const [near, from] = duplexPair();
  const [to] = duplexPair();
  const told: number[] = [];
  tellTaken(from, to, (bytes) => void told.push(bytes));
  let wrote = 0;
  while (wrote < 16 * MIB && near.write(Buffer.alloc(64 * 1024))) wrote += 64 * 1024;
  for (let times = 0; times < 100; times++) await turn();
  expect(wrote).toBeLessThan(MIB);
  expect(told).toEqual([0]);
});

test("pieces that come together are written together, whole and in order, also the last", async () => {
  const [near, from] = duplexPair({ highWaterMark: 4 * MIB });
  const written: number[] = [];
  let text = "";
  const to = new Writable({
    highWaterMark: 4 * MIB,
    writev: (pieces, done) => {
      written.push(pieces.length);
      for (const { chunk } of pieces) text += (chunk as Buffer).toString();
      done();
    },
  });
  const over = new Promise<void>((done) => to.once("finish", done));
  tellTaken(from, to as unknown as Duplex, () => undefined);
  const words = Array.from({ length: 40 }, (_, at) => `piece ${at};`);
  for (const word of words) near.write(word);
  near.end("last");
  await over;
  expect(text).toBe(`${words.join("")}last`);
  expect(written.length).toBeLessThan(words.length / 4);
});

/** Two ends of one connection. */
async function connected(): Promise<readonly [Socket, Socket]> {
  const server = createServer({ pauseOnConnect: true }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const here = connect((server.address() as AddressInfo).port, "127.0.0.1");
  const [there] = (await once(server, "connection")) as [Socket];
  server.close();
  return [here, there];
}

test.each(["sent", "taken"] as const)(
  "what is %s is whole, and its memory is given back at once",
  async (how) => {
    const [[near, from], [to, far]] = [await connected(), await connected()];
    const seen: Buffer[] = [];
    from.on("data", (chunk: Buffer) => seen.push(chunk));
    if (how === "sent") sendWithin(from, to);
    else tellTaken(from, to, () => undefined);
    const bytes = randomBytes(8 * MIB);
    const came = createHash("sha256");
    far.on("data", (chunk: Buffer) => came.update(chunk));
    far.resume();
    near.end(bytes);
    await once(far, "end");
    expect(came.digest("hex")).toBe(createHash("sha256").update(bytes).digest("hex"));
    await vi.waitFor(
      () => expect(seen.filter(({ buffer }) => buffer.byteLength > 0).length).toBeLessThan(seen.length / 10),
      { timeout: 30_000 },
    );
    for (const socket of [near, from, to, far]) socket.destroy();
  },
);

test("memory that somebody may still look at is left to him", async () => {
  const [near, from] = duplexPair();
  const [to, far] = duplexPair();
  const kept: Buffer[] = [];
  far.on("data", (chunk: Buffer) => kept.push(chunk));
  sendWithin(from, to);
  const over = once(far, "end");
  near.end(Buffer.from(new Uint8Array(1000).fill(7).buffer));
  await over;
  expect(Buffer.concat(kept)).toEqual(Buffer.alloc(1000, 7));
});
