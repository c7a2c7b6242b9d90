import { createServer, type Server } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { BodyBudget } from "./body-budget.ts";
import { bodyTerms, readBody, type BodyRead, type BodyTerms } from "./read-body.ts";

const terms = (name: string, more: Partial<BodyTerms> = {}): BodyTerms => ({
  owner: { kind: "strangers", name },
  bytes: 1_000,
  ms: 5_000,
  ...more,
});

let server: Server;
let budget: BodyBudget;
let wanted: BodyTerms;
let reads: Promise<BodyRead>[];
const sockets: Socket[] = [];

beforeEach(async () => {
  budget = new BodyBudget({ strangers: { inAll: 2_000, each: 1_500 }, users: { inAll: 1, each: 1 } });
  wanted = terms("a");
  reads = [];
  server = createServer((req, res) => {
    const read = readBody(req, wanted, budget);
    reads.push(read);
    void read.then(({ ok }) => res.writeHead(ok ? 200 : 503, { Connection: "close" }).end());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await new Promise((resolve) => server.close(resolve));
});

/** Sends the beginning of a body, and waits until it is read. */
async function begin(
  length: number | "chunked",
  body: string,
  as = terms("a"),
): Promise<{ readonly end: Promise<BodyRead>; readonly socket: Socket }> {
  wanted = as;
  const before = budget.held("strangers");
  const count = reads.length;
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  sockets.push(socket);
  socket.on("error", () => undefined);
  const head = length === "chunked" ? "Transfer-Encoding: chunked" : `Content-Length: ${length}`;
  socket.write(`POST / HTTP/1.1\r\nHost: x\r\n${head}\r\n\r\n${body}`);
  await expect.poll(() => reads.length).toBe(count + 1);
  const end = reads[count] ?? Promise.reject(new Error("it was not read"));
  let over = false;
  void end.then(() => (over = true));
  await expect.poll(() => over || budget.held("strangers") > before).toBe(true);
  return { end, socket };
}

describe("a body", () => {
  test("comes whole, and what it held is given back", async () => {
    const read = await begin(5, "hello");
    expect(await read.end).toEqual({ ok: true, body: Buffer.from("hello") });
    expect(budget.held("strangers")).toBe(0);
    expect(await (await begin(0, "")).end).toEqual({ ok: true, body: Buffer.alloc(0) });
  });

  test("larger than its terms is refused by its length, or where the length is a lie by its bytes", async () => {
    expect(await (await begin(1_001, "")).end).toEqual({ ok: false, why: "too-large" });
    const chunk = `3e9\r\n${"x".repeat(1_001)}\r\n`;
    expect(await (await begin("chunked", chunk)).end).toEqual({ ok: false, why: "too-large" });
    expect(budget.held("strangers")).toBe(0);
  });

  test("that is not there in time is none, however it trickles in", async () => {
    const read = await begin(1_000, "x", terms("a", { ms: 300 }));
    const drip = setInterval(() => read.socket.write("x"), 20);
    expect(await read.end).toEqual({ ok: false, why: "aborted" });
    clearInterval(drip);
    expect(budget.held("strangers")).toBe(0);
  });

  test("beyond what an address may hold is refused, others are read", async () => {
    const first = await begin(1_000, "x".repeat(900));
    const second = await begin(1_000, "x".repeat(601));
    expect(await second.end).toEqual({ ok: false, why: "no-room" });
    const other = await begin(600, "x".repeat(600), terms("b"));
    expect(await other.end).toMatchObject({ ok: true });
    first.socket.write("x".repeat(100));
    expect(await first.end).toMatchObject({ ok: true });
  });

  test("of the greediest gives way when all of them have too much", async () => {
    const greedy = await begin(1_000, "x".repeat(900));
    const modest = await begin(1_000, "x".repeat(800), terms("b"));
    const newcomer = await begin(400, "x".repeat(400), terms("c"));
    expect(await greedy.end).toEqual({ ok: false, why: "no-room" });
    expect(await newcomer.end).toMatchObject({ ok: true });
    modest.socket.write("x".repeat(200));
    expect(await modest.end).toMatchObject({ ok: true });
  });

  test("of a client that hangs up holds nothing any more", async () => {
    const read = await begin(1_000, "x".repeat(900));
    expect(budget.held("strangers")).toBe(900);
    read.socket.destroy();
    expect(await read.end).toEqual({ ok: false, why: "aborted" });
    expect(budget.held("strangers")).toBe(0);
  });
});

test("strangers go by their network and have less than users, who go by their name", () => {
  const unknown = bodyTerms(undefined, "2001:db8::1");
  expect(unknown.owner).toEqual(bodyTerms(undefined, "2001:db8::2").owner);
  const joe = bodyTerms({ userid: "joe@pve", tokenid: "a", authid: "joe@pve!a" }, "2001:db8::1");
  expect(joe.owner).toEqual({ kind: "users", name: "joe@pve" });
  expect(unknown.bytes).toBeLessThan(joe.bytes);
  expect(unknown.ms).toBeLessThan(joe.ms);
});
