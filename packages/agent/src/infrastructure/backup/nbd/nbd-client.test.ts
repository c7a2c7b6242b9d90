import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { fileNode } from "@gpve/domain/storage/block-node.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { exec } from "@gpve/kit/exec.ts";
import { plainTools } from "../../image-tools/image-tools.ts";
import { withImage } from "./image-server.ts";
import { NbdClient } from "./nbd-client.ts";

const dir = mkdtempSync(join(tmpdir(), "gpve-nbd-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const hasQemu = existsSync("/usr/bin/qemu-nbd");
const deps = { tools: plainTools(exec), clock: systemClock };
const MIB = 1024 * 1024;

describe.skipIf(!hasQemu)(
  "a disk image through qemu-nbd (skipped without it: apt-get install qemu-utils)",
  () => {
    test.each(["raw", "qcow2"] as const)(
      "of format %s gives back what was written, and knows its holes",
      async (format) => {
        const path = join(dir, `disk.${format}`);
        await exec("qemu-img", ["create", "-f", format, path, "8M"]);
        const data = randomBytes(MIB);
        const image = { node: fileNode(path), format, socket: join(dir, "s") };
        await withImage(deps, { ...image, access: "rw" }, async (disk) => {
          expect(disk.size).toBe(8 * MIB);
          await disk.write(2 * MIB, data);
          await disk.write(5 * MIB, data);
          await disk.writeZeroes(5 * MIB, MIB);
          await disk.flush();
        });
        await withImage(deps, { ...image, access: "ro" }, async (disk) => {
          expect((await disk.read(2 * MIB, MIB)).equals(data)).toBe(true);
          expect((await disk.read(2 * MIB - 4096, 8192)).subarray(4096).equals(data.subarray(0, 4096))).toBe(
            true,
          );
          expect((await disk.read(5 * MIB, MIB)).equals(Buffer.alloc(MIB))).toBe(true);
          // The first block of a raw file is data: qemu-img writes it.
          const [hole] = await disk.extents(64 * 1024, 8 * MIB - 64 * 1024);
          expect(hole).toEqual({ length: 2 * MIB - 64 * 1024, isZero: true });
          await expect(disk.write(0, Buffer.alloc(512))).rejects.toThrow("writing the image at 0 failed");
          await expect(disk.read(0, 64 * MIB)).rejects.toThrow("an NBD request may have");
        });
        if (format === "raw")
          expect(
            readFileSync(path)
              .subarray(2 * MIB, 3 * MIB)
              .equals(data),
          ).toBe(true);
      },
    );

    test("says why an image cannot be served", async () => {
      const broken = join(dir, "broken.qcow2");
      writeFileSync(broken, "this is no image");
      const image = {
        node: fileNode(broken),
        format: "qcow2",
        socket: join(dir, "b"),
        access: "ro",
      } as const;
      await expect(withImage(deps, image, async () => undefined)).rejects.toThrow(
        /qemu-nbd: .*not in qcow2 format/i,
      );
      await expect(
        withImage(deps, { ...image, node: fileNode(join(dir, "absent")) }, async () => undefined),
      ).rejects.toThrow(/No such file/);
    });
  },
);

test("refuses what is no NBD server, and one that is not there", async () => {
  await expect(NbdClient.open(join(dir, "nobody"), "disk")).rejects.toThrow("cannot reach the NBD server");
  const path = join(dir, "http");
  const server = createServer((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"));
  await new Promise<void>((done) => server.listen(path, done));
  await expect(NbdClient.open(path, "disk")).rejects.toThrow("this is not an NBD server");
  server.close();
});

test("a link in a guest's folder leads to no other socket of the host", async () => {
  const other = createServer((socket) => socket.end("secret"));
  await new Promise<void>((resolve) => other.listen(join(dir, "other"), resolve));
  symlinkSync(join(dir, "other"), join(dir, "nbd"));
  await expect(NbdClient.open(join(dir, "nbd"), "scsi0")).rejects.toThrow("not a socket");
  other.close();
});
