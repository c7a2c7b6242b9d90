import { expect, test } from "vitest";
import { FetchTransport } from "./fetch-transport.ts";

test("asks the page's origin without a cookie header and reads the answer", async () => {
  const asked: [string, RequestInit][] = [];
  const transport = new FetchTransport({
    origin: "https://x:8006",
    fetch: async (url, init) => {
      asked.push([url, init]);
      return new Response('{"data":1}', { status: 200, statusText: "OK", headers: { "X-Y": "z" } });
    },
  });
  const response = await transport.send({
    method: "POST",
    path: "/api2/json/pools",
    headers: { cookie: "secret", accept: "a" },
    body: "poolid=p",
    signal: new AbortController().signal,
    timeoutMs: 1000,
  });
  expect(asked[0]?.[0]).toBe("https://x:8006/api2/json/pools");
  expect(asked[0]?.[1]).toMatchObject({ method: "POST", headers: { accept: "a" }, body: "poolid=p" });
  expect(response.headers["x-y"]).toBe("z");
  expect(await response.text()).toBe('{"data":1}');
  transport.close();
});

test("an empty answer is an empty text", async () => {
  const transport = new FetchTransport({
    origin: "",
    fetch: async () => new Response(null, { status: 204 }),
  });
  expect(await (await transport.send({ method: "GET", path: "/", headers: {} })).text()).toBe("");
});

test("tells timeout, cancel and no connection apart", async () => {
  const hang = (_url: string, init: RequestInit): Promise<Response> =>
    new Promise((_resolve, reject) => {
      init.signal?.addEventListener("abort", () => reject(new Error("aborted")));
    });
  const ask = { method: "GET", path: "/x", headers: {} } as const;
  const slow = new FetchTransport({ origin: "https://x", fetch: hang });
  await expect(slow.send({ ...ask, timeoutMs: 20 })).rejects.toMatchObject({ code: "request.timeout" });
  const abort = new AbortController();
  const cancelled = slow.send({ ...ask, signal: abort.signal });
  abort.abort();
  await expect(cancelled).rejects.toMatchObject({ code: "operation.cancelled" });
  const down = new FetchTransport({
    origin: "https://x",
    fetch: () => Promise.reject(new TypeError("failed")),
  });
  await expect(down.send(ask)).rejects.toMatchObject({ code: "node.unavailable" });
});
