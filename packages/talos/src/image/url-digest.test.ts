import { createHash } from "node:crypto";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { afterEach, expect, test } from "vitest";
import { urlDigests } from "./url-digest.ts";

const content = Buffer.alloc(3 * 1024 * 1024, "an image ");
const sum = createHash("sha256").update(content).digest("hex");
let server: Server | undefined;
afterEach(() => server?.close());

async function serve(listener: RequestListener): Promise<string> {
  const made = createServer(listener);
  server = made;
  await new Promise<void>((done) => made.listen(0, "127.0.0.1", done));
  return `http://127.0.0.1:${(made.address() as AddressInfo).port}/x.qcow2`;
}

let now = 0;
const clock = { monotonic: () => (now += 6_000) };
const digest = (url: string, notes: string[] = [], signal?: AbortSignal) =>
  urlDigests({ fetch, clock })({ url, tell: (note) => notes.push(note), signal });

test("an image is read as it lies there, and how far it is is told", async () => {
  const accepted: unknown[] = [];
  const url = await serve((request, response) => {
    accepted.push(request.headers["accept-encoding"]);
    response.writeHead(200, { "content-length": content.length }).end(content);
  });
  const notes: string[] = [];
  expect(await digest(url, notes)).toBe(sum);
  expect(accepted).toEqual(["identity"]);
  expect(notes[0]).toMatch(/^read \d+ of 3 MiB of it here, for its SHA-256$/);
});

test("several who ask at once read it once", async () => {
  let asked = 0;
  const url = await serve((_request, response) => {
    asked += 1;
    response.end(content);
  });
  const digests = urlDigests({ fetch, clock });
  const one = () => digests({ url, tell: () => undefined });
  expect(await Promise.all([one(), one(), one()])).toEqual([sum, sum, sum]);
  expect(asked).toBe(1);
  expect(await one()).toBe(sum);
  expect(asked).toBe(2);
});

test.each<[string, RequestListener, RegExp]>([
  ["is not there", (_request, response) => response.writeHead(404).end(), /: status 404$/],
  [
    "comes packed",
    (_request, response) => response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync(content)),
    /: it comes as gzip$/,
  ],
  [
    "breaks off",
    (_request, response) => {
      response.writeHead(200, { "content-length": content.length });
      response.write(content.subarray(0, 1000), () => response.destroy());
    },
    /: it broke off after \d+ bytes/,
  ],
])("what %s has no checksum", async (_what, listener, why) => {
  await expect(digest(await serve(listener))).rejects.toThrow(why);
});

test("of an address where nobody answers it is said why", async () => {
  const url = await serve(() => undefined);
  await new Promise((done) => server?.close(done));
  await expect(digest(url)).rejects.toThrow(/cannot be read from here: .*ECONNREFUSED/);
});

test("whoever stops does not wait for the rest", async () => {
  const url = await serve((_request, response) => {
    response.writeHead(200, { "content-length": content.length });
    response.write(content.subarray(0, 1000));
  });
  const stop = new AbortController();
  const reading = digest(url, [], stop.signal);
  stop.abort(new Error("stopped"));
  await expect(reading).rejects.toThrow("cannot be read from here");
  server?.closeAllConnections();
});
