// Small things that become large: each way in ends before the storage is full, says why and leaves nothing.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { CAN_CONFINE, confinedImageTools } from "../../../testing/confined-image-tools.ts";
import { createArchive, openArchive } from "../../backup/archive-file.ts";
import { openPackedFile } from "../../backup/packed-file.ts";
import { plainTools, type ImageTools } from "../../image-tools/image-tools.ts";
import { fetchText } from "../../images/fetch-text.ts";
import { HttpFetcher } from "./http-fetcher.ts";
import { HostStorageFiles } from "./storage-files.ts";

const MIB = 1024 * 1024;
const room = (): Promise<number> => Promise.resolve(MIB);
const { signal } = new AbortController();

let folder: string;
const at = (name: string): string => join(folder, name);
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-bomb-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const zeros = Buffer.alloc(64 * MIB);

/** The zeros, packed to next to nothing. */
async function bomb(method: string): Promise<string> {
  const path = at(`bomb.${method}`);
  if (method === "gz") writeFileSync(path, gzipSync(zeros));
  else if (method === "zst") writeFileSync(path, zstdCompressSync(zeros));
  else {
    writeFileSync(at("plain"), zeros);
    if (method === "bz2") {
      await exec("bzip2", [at("plain")]);
      await exec("mv", [at("plain.bz2"), path]);
    } else await exec("lzop", ["-U", "-o", path, at("plain")]);
  }
  return path;
}

const kinds: readonly [string, () => ImageTools, boolean][] = [
  ["without root", () => plainTools(exec), false],
  ["confined", () => confinedImageTools(mkdtempSync(join(folder, "tools-"))), !CAN_CONFINE],
];

describe.each(kinds)("what is packed small, with tools %s", (_kind, toolsOf, isMissing) => {
  const left = (): string[] => readdirSync(folder).filter((name) => !/^(?:bomb|tools-)/.test(name));

  it.skipIf(isMissing).each(["gz", "zst", "bz2", "lzo"])(
    "as %s is unpacked no further than there is room",
    async (method) => {
      const path = await bomb(method);
      expect(readFileSync(path).length).toBeLessThan(MIB);
      const tools = toolsOf();
      const files = new HostStorageFiles({ exec, tools, room });
      await expect(files.decompress(path, method, signal)).rejects.toThrow(
        "the unpacked file does not fit on the storage: it has more than 1048576 bytes",
      );
      expect(left()).toEqual([]);
      const large = new HostStorageFiles({ exec, tools });
      await large.decompress(path, method, signal);
      expect(readFileSync(path).equals(zeros)).toBe(true);
    },
  );

  it.skipIf(isMissing)("as a backup by lzop is unpacked no further either", async () => {
    const path = await bomb("lzo");
    await expect(openPackedFile(toolsOf(), path, room)).rejects.toThrow("does not fit on the storage");
    expect(left()).toEqual([]);
  });
});

describe("what is packed small", () => {
  it("behind a backup's own end is not unpacked at all", async () => {
    const path = at("a.vma");
    const devices = [{ id: 1, name: "drive-scsi0", size: 65_536 }];
    const writer = await createArchive(plainTools(exec), path, "none", {
      ctime: 0,
      configs: new Map(),
      devices,
    });
    await writer.cluster(1, 0, Buffer.alloc(65_536, 1));
    await writer.finish();
    const packed = at("b.vma.zst");
    writeFileSync(packed, zstdCompressSync(Buffer.concat([readFileSync(path), zeros])));
    expect(readFileSync(packed).length).toBeLessThan(MIB);
    const reader = await openArchive(plainTools(exec), packed);
    let bytes = 0;
    const read = async (): Promise<void> => {
      for await (const { data } of reader.clusters()) bytes += data.length;
    };
    await expect(read()).rejects.toThrow("the backup archive is damaged");
    expect(bytes).toBeLessThanOrEqual(65_536);
    await reader.close();
  });
});

describe("what is fetched", () => {
  let server: Server;
  let url: string;
  let answer: (response: ServerResponse) => void;
  beforeEach(async () => {
    server = createServer((_request, response) => answer(response));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/file`;
  });
  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });

  /** Never says how long it is, and never ends. */
  const endless = (response: ServerResponse): void => {
    const more = (): void => {
      while (!response.destroyed && response.write(zeros.subarray(0, 65_536))) continue;
    };
    response.on("drain", more);
    more();
  };
  const work = { verifyCertificates: true, signal, progress: () => undefined };

  it("without an end is cut off where there is no room", async () => {
    answer = endless;
    const fetcher = new HttpFetcher({ userAgent: "t", freeBytes: room });
    await expect(fetcher.download(url, at("file"), work)).rejects.toMatchObject({
      code: "capacity.exceeded",
      message: expect.stringMatching(/^the storage is full after \d{8} bytes/),
    });
  });

  it("as a list of checksums is short", async () => {
    answer = endless;
    await expect(fetchText(new HttpFetcher({ userAgent: "t" }), url, signal)).rejects.toMatchObject({
      code: "request.too_large",
    });
  });
});
