import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { archiveUnpacker } from "./unpack-archive.ts";

const raw = Buffer.from("the disk of a release ".repeat(1000));
let folder: string;
let server: Server;
let asked = 0;

beforeAll(async () => {
  server = createServer((request, response) => {
    asked += 1;
    response.writeHead(request.url?.startsWith("/ok") === true ? 200 : 404);
    response.end(gzipSync(raw));
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
});
afterAll(() => server.close());
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), "gpve-unpack-"))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const unpacker = archiveUnpacker({ exec, fetch });
const unpack = (from: string) => unpacker({ from, path: join(folder, "work/disk.raw"), sha256: null });
const url = (path: string) => `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`;

test.each([
  ["zst", (bytes: Buffer) => zstdCompressSync(bytes)],
  ["gz", (bytes: Buffer) => gzipSync(bytes)],
  ["raw", (bytes: Buffer) => bytes],
])("%s is unpacked", async (kind, pack) => {
  const from = join(folder, `disk.${kind}`);
  writeFileSync(from, pack(raw));
  await unpack(from);
  expect(readFileSync(join(folder, "work/disk.raw"))).toEqual(raw);
  expect(existsSync(from)).toBe(true);
});

test("one that is fetched is fetched once, and only what is unpacked is kept", async () => {
  asked = 0;
  await Promise.all([unpack(url("/ok.raw.gz")), unpack(url("/ok.raw.gz"))]);
  await unpack(url("/ok.raw.gz"));
  expect(asked).toBe(1);
  expect(readdirSync(join(folder, "work"))).toEqual(["disk.raw"]);
});

test("one that cannot be fetched is told with its status", async () => {
  await expect(unpack(url("/no.raw.gz"))).rejects.toMatchObject({
    message: expect.stringContaining("status 404"),
    data: { finding: "image-refused" },
  });
  expect(readdirSync(join(folder, "work"))).toEqual([]);
});

test("what is no archive of its kind leaves nothing behind", async () => {
  const from = join(folder, "disk.raw.xz");
  writeFileSync(from, "no xz");
  await expect(unpack(from)).rejects.toMatchObject({ data: { finding: "image-broken" } });
  expect(readdirSync(join(folder, "work"))).toEqual([]);
});
