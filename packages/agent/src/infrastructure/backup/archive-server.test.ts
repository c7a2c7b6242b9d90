import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { ArchiveCluster, ArchiveReader, ArchiveServer } from "@gpve/domain/backup/backup-ports.ts";
import { serveArchive } from "./archive-server.ts";
import { NbdClient } from "./nbd/nbd-client.ts";
import { NBD_MAGIC, Option, optionRequest, request } from "./nbd/nbd-protocol.ts";

const CLUSTER = 65_536;
let folder: string;
let server: ArchiveServer | undefined;
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), "gpve-served-"))));
afterEach(async () => {
  await server?.close();
  server = undefined;
  rmSync(folder, { recursive: true, force: true });
});

/** Named fake: an archive of one disk whose clusters come when the test says so. */
function slowArchive(size: number) {
  const queue: (ArchiveCluster | Error | undefined)[] = [];
  let wake: () => void = () => undefined;
  const reader: ArchiveReader = {
    header: { ctime: 1, configs: new Map(), devices: [{ id: 1, name: "drive-scsi0", size }] },
    async *clusters() {
      for (;;) {
        while (queue.length === 0) await new Promise<void>((resolve) => (wake = resolve));
        const next = queue.shift();
        if (next instanceof Error) throw next;
        if (next === undefined) return;
        yield next;
      }
    },
    close: async () => undefined,
  };
  const push = (next: ArchiveCluster | Error | undefined): void => {
    queue.push(next);
    wake();
  };
  const cluster = (index: number, data: Buffer, more: Partial<ArchiveCluster> = {}): void =>
    push({ device: { name: "drive-scsi0" }, offset: index * CLUSTER, data, isZero: false, ...more });
  return { reader, cluster, end: () => push(undefined), fail: (text: string) => push(new Error(text)) };
}

async function open(reader: ArchiveReader, isFinal = true): Promise<string> {
  const spool = join(folder, "spool");
  writeFileSync(spool, "");
  truncateSync(spool, reader.header.devices[0]?.size ?? 0);
  const socket = join(folder, "nbd");
  const files = new Map([["drive-scsi0", spool]]);
  server = await serveArchive({ reader, spool: files, socket, isFinal, pace: async () => undefined });
  return socket;
}

test("gives out what has come, keeps others waiting for what has not, and tells when all is there", async () => {
  const data = randomBytes(3 * CLUSTER - 100);
  const archive = slowArchive(data.length);
  const client = await NbdClient.open(await open(archive.reader), "drive-scsi0");
  expect(client.size).toBe(data.length);
  archive.cluster(2, data.subarray(2 * CLUSTER));
  expect(
    (await client.read(2 * CLUSTER + 512, 1024)).equals(data.subarray(2 * CLUSTER + 512, 2 * CLUSTER + 1536)),
  ).toBe(true);
  let early = true;
  const rest = server?.read("drive-scsi0", 0, data.length).finally(() => (early = false));
  archive.cluster(0, data.subarray(0, CLUSTER));
  await client.read(0, 512);
  expect(early).toBe(true);
  archive.cluster(1, data.subarray(CLUSTER, 2 * CLUSTER));
  expect(Buffer.from((await rest) ?? []).equals(data)).toBe(true);
  archive.end();
  await server?.whole;
  expect((await client.extents(0, data.length))[0]?.isZero).toBe(false);
  client.close();
});

test("waits for the end where later parts replace earlier ones", async () => {
  const archive = slowArchive(CLUSTER);
  await open(archive.reader, false);
  const read = server?.read("drive-scsi0", 0, CLUSTER);
  archive.cluster(0, Buffer.alloc(CLUSTER, 1));
  archive.cluster(0, Buffer.alloc(4096), { isZero: true, overwrites: true });
  archive.end();
  const content = Buffer.from((await read) ?? []);
  expect([content[0], content[4095], content[4096]]).toEqual([0, 0, 1]);
  expect(() => server?.read("drive-scsi9", 0, 1)).toThrow("no device 'drive-scsi9'");
});

test("tells readers of an archive that breaks off", async () => {
  const archive = slowArchive(2 * CLUSTER);
  const client = await NbdClient.open(await open(archive.reader), "drive-scsi0");
  const waiting = client.read(CLUSTER, 512);
  archive.cluster(0, Buffer.alloc(CLUSTER, 1));
  archive.fail("cut off");
  await expect(waiting).rejects.toThrow("input/output error");
  await expect(server?.whole).rejects.toThrow("cut off");
  await expect(server?.read("drive-scsi0", CLUSTER, 512)).rejects.toThrow("cut off");
  expect((await client.read(0, 512))[0]).toBe(1);
  await expect(client.writeZeroes(0, 512)).rejects.toThrow("not permitted");
  await expect(client.read(CLUSTER, 2 * CLUSTER)).rejects.toThrow("invalid argument");
  await client.flush();
});

test("speaks only of disks it has, and hangs up on nonsense", async () => {
  const archive = slowArchive(CLUSTER);
  const socket = await open(archive.reader);
  await expect(NbdClient.open(socket, "other")).rejects.toThrow("refused the export");
  /** Sends bytes after the greeting and gathers all that comes back. */
  const talk = (bytes: Buffer, flags = 3): Promise<Buffer> =>
    new Promise((resolve) => {
      const chunks: Buffer[] = [];
      const client = connect(socket);
      const head = Buffer.alloc(4);
      head.writeUInt32BE(flags);
      client.on("data", (chunk) => chunks.push(chunk));
      client.on("close", () => resolve(Buffer.concat(chunks)));
      client.on("error", () => undefined);
      client.write(Buffer.concat([head, bytes]));
    });
  expect((await talk(Buffer.alloc(16))).readBigUInt64BE(0)).toBe(NBD_MAGIC);
  expect((await talk(optionRequest(Option.abort, Buffer.alloc(0)))).length).toBe(18 + 20);
  expect((await talk(optionRequest(Option.exportName, Buffer.from("other")))).length).toBe(18);
  const named = optionRequest(Option.exportName, Buffer.from("drive-scsi0"));
  const goodbye = request(2, 1n, 0, 0);
  expect((await talk(Buffer.concat([named, goodbye]), 1)).length).toBe(18 + 10 + 124);
  expect((await talk(Buffer.concat([named, Buffer.alloc(28)]))).length).toBe(18 + 10);
  await expect(open({ ...archive.reader })).rejects.toThrow("EADDRINUSE");
});
