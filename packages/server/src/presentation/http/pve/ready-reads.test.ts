import type { IncomingMessage } from "node:http";
import { expect, test } from "vitest";
import { ReadyReads, type ReadyRead } from "./ready-reads.ts";

const yes = (): boolean => true;

function asked(over: {
  readonly socket?: object;
  readonly method?: string;
  readonly url?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly rawHeaders?: readonly string[];
}): IncomingMessage {
  const headers = over.headers ?? { authorization: "PVEAPIToken=a" };
  return {
    socket: {},
    method: "GET",
    url: "/x",
    rawHeaders: [],
    ...over,
    headers,
  } as unknown as IncomingMessage;
}

const read = (over: Partial<ReadyRead> = {}): ReadyRead => ({
  answer: { status: 200, body: Buffer.from("{}") },
  route: "/x",
  holds: yes,
  isSame: yes,
  ...over,
});

function withOne(over: Partial<ReadyRead> = {}): { ready: ReadyReads; socket: object; one: ReadyRead } {
  const ready = new ReadyReads();
  const socket = {};
  const one = read(over);
  ready.proven(asked({ socket }), "joe@pve!t", one.holds);
  ready.keep(asked({ socket }), "joe@pve!t", one);
  return { ready, socket, one };
}

test("gives an answer again to who asked for it, on a connection where he was believed", () => {
  const { ready, socket, one } = withOne();
  expect(ready.find(asked({ socket }))).toBe(one);
  expect(ready.find(asked({ socket: {} }))).toBeUndefined();
  const other = {};
  ready.proven(asked({ socket: other, headers: { authorization: "PVEAPIToken=b" } }), "ann@pve!t", yes);
  expect(ready.find(asked({ socket: other, headers: { authorization: "PVEAPIToken=b" } }))).toBeUndefined();
});

test.each([
  ["other words than those that were believed", { headers: { authorization: "PVEAPIToken=b" } }],
  ["no words", { headers: {} }],
  ["a cookie too", { headers: { authorization: "PVEAPIToken=a", cookie: "PVEAuthCookie=x" } }],
  ["a body", { headers: { authorization: "PVEAPIToken=a", "content-length": "3" } }],
  ["chunks", { headers: { authorization: "PVEAPIToken=a", "transfer-encoding": "chunked" } }],
  ["another method", { method: "DELETE" }],
  ["another path", { url: "/y" }],
  ["another query", { url: "/x?current=1" }],
  ["too many headers", { rawHeaders: Array.from({ length: 126 }, () => "a") }],
])("goes the whole way with %s", (_what, over) => {
  const { ready, socket } = withOne();
  expect(ready.find(asked({ socket, ...over }))).toBeUndefined();
});

test("goes the whole way when permissions, token or answer changed", () => {
  let [holds, isSame] = [true, true];
  const { ready, socket, one } = withOne({ holds: () => holds, isSame: () => isSame });
  expect(ready.find(asked({ socket }))).toBe(one);
  isSame = false;
  expect(ready.find(asked({ socket }))).toBeUndefined();
  [holds, isSame] = [false, true];
  expect(ready.find(asked({ socket }))).toBeUndefined();
  // Believed anew after a change: what was allowed before it is not given.
  ready.proven(asked({ socket }), "joe@pve!t", () => true);
  expect(ready.find(asked({ socket }))).toBeUndefined();
});

test("keeps no more than it may, and nothing large", () => {
  const { ready, socket } = withOne();
  const large = read({ answer: { status: 200, body: Buffer.alloc(65 * 1024) } });
  ready.keep(asked({ socket, url: "/large" }), "joe@pve!t", large);
  expect(ready.find(asked({ socket, url: "/large" }))).toBeUndefined();
  const body = Buffer.alloc(60 * 1024);
  for (let at = 0; at < 300; at++)
    ready.keep(asked({ socket, url: `/${at}` }), "joe@pve!t", read({ answer: { status: 200, body } }));
  const kept = Array.from({ length: 300 }, (_, at) => ready.find(asked({ socket, url: `/${at}` })));
  expect(kept.filter((each) => each !== undefined).length).toBeLessThanOrEqual((16 * 1024) / 60);
  expect(kept.at(-1)).toBeDefined();
});
