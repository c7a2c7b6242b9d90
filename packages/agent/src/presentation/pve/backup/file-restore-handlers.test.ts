// Looking into backups through the methods: a real file system in a real archive.
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileNode } from "@gpve/domain/storage/block-node.ts";
import { given } from "@gpve/contracts/given.ts";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { BackupTools } from "@gpve/domain/backup/backup-ports.ts";
import { PveReply, type PveHandlers } from "@gpve/domain/request/handler.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { exec } from "@gpve/kit/exec.ts";
import { hostBackupTools } from "../../../infrastructure/backup/host-backup-tools.ts";
import { diskFormats } from "../../../infrastructure/file-restore/disk-formats.ts";
import { FileSpool } from "../../../infrastructure/file-restore/file-spool.ts";
import { packFiles } from "../../../infrastructure/file-restore/pack-files.ts";
import { contextOf, type Rights } from "../../../testing/storage-world.ts";
import { VmWorld } from "../../../testing/vm-world.ts";
import { createFileRestoreHandlers } from "./file-restore-handlers.ts";
import { plainPlugins } from "../../../testing/plain-plugins.ts";

const mke2fs = ["/usr/sbin/mke2fs", "/sbin/mke2fs"].find((path) => existsSync(path));
const FULL = "vzdump-qemu-100-2026_01_01-00_00_00.vma.zst";
const CHILD = "vzdump-qemu-100-2026_01_02-00_00_00.gpvi.zst";
const CLUSTER = 65_536;

let world: VmWorld;
let tools: BackupTools;
let spool: FileSpool;
let handlers: PveHandlers;
beforeEach(async () => {
  world = await VmWorld.open();
  tools = hostBackupTools({ ...plainPlugins(), clock: systemClock, socketFolder: world.root });
  spool = new FileSpool({ folder: join(world.root, "spool"), clock: systemClock });
  handlers = createFileRestoreHandlers({
    host: world.host,
    tools,
    spool,
    formats: diskFormats,
    pack: packFiles,
  });
  await world.storages.find("local").plugin.activate();
});
afterEach(async () => {
  await spool.close();
  world.remove();
});

const b64 = (text: string): string => Buffer.from(text).toString("base64");
const list = async (filepath: string, volume = `local:backup/${FULL}`, rights?: Rights): Promise<unknown> =>
  handlers["GET /nodes/{node}/storage/{storage}/file-restore/list"]?.(
    { node: "n1", storage: "local", volume, filepath },
    contextOf(rights),
  );
const download = async (path: string, tar?: boolean): Promise<{ name: string; bytes: Buffer }> => {
  const reply = await handlers["GET /nodes/{node}/storage/{storage}/file-restore/download"]?.(
    {
      node: "n1",
      storage: "local",
      volume: `backup/${FULL}`,
      filepath: b64(path),
      ...given({ tar }),
    },
    contextOf(undefined),
  );
  if (!(reply instanceof PveReply) || reply.download === undefined) throw new Error("no download");
  const parts: Uint8Array[] = [];
  for await (const part of reply.download.body) parts.push(part);
  return { name: reply.download.fileName ?? "", bytes: Buffer.concat(parts) };
};

async function archive(): Promise<void> {
  const root = join(world.root, "files");
  mkdirSync(join(root, "etc"), { recursive: true });
  writeFileSync(join(root, "etc", "hostname"), "web\n");
  const image = join(world.root, "fs.img");
  await exec(mke2fs ?? "", ["-q", "-F", "-t", "ext4", "-d", root, image, "4M"]);
  const disk = await tools.withImage({ node: fileNode(image), format: "raw", access: "ro" }, (from) =>
    from.read(0, from.size),
  );
  const folder = join(world.root, "local", "dump");
  const uuid = "1".repeat(32);
  const configs = new Map([["qemu-server.conf", Buffer.from("name: web\n")]]);
  const writer = await tools.createArchive(join(folder, FULL), "zstd", {
    uuid,
    ctime: 1,
    configs,
    devices: [{ id: 1, name: "drive-scsi0", size: disk.length }],
  });
  for (let at = 0; at < disk.length; at += CLUSTER)
    await writer.cluster(1, at / CLUSTER, disk.subarray(at, at + CLUSTER));
  await writer.finish();
  // The child's disk is nothing but zeroes any more, and has a second one.
  const child = await tools.createIncremental(join(folder, CHILD), {
    uuid: "2".repeat(32),
    ctime: 2,
    parent: { name: FULL, uuid },
    configs,
    devices: [
      { name: "drive-scsi0", size: disk.length, whole: false },
      { name: "drive-scsi1", size: 1024, whole: true },
    ],
  });
  await child.zeroes(0, 0, disk.length);
  await child.finish();
}

describe.skipIf(mke2fs === undefined)("files of backups (skipped without e2fsprogs)", () => {
  test("are listed from the drives on, in PVE's form", async () => {
    await archive();
    expect(await list("/")).toEqual([
      {
        filepath: b64("/drive-scsi0"),
        text: "drive-scsi0",
        type: "v",
        leaf: false,
        size: 4 * 1024 * 1024,
      },
    ]);
    expect(await list(b64("/drive-scsi0"))).toMatchObject([{ filepath: b64("/drive-scsi0/raw"), type: "v" }]);
    expect(await list(b64("/drive-scsi0/raw/"))).toContainEqual({
      filepath: b64("/drive-scsi0/raw/etc"),
      text: "etc",
      type: "d",
      leaf: false,
      mtime: expect.any(Number),
    });
    expect(await list(b64("/drive-scsi0/raw/etc"))).toMatchObject([
      { text: "hostname", type: "f", leaf: true, size: 4 },
    ]);
    // The same disk as the incremental archive has it.
    const child = `local:backup/${CHILD}`;
    expect(await list("/", child)).toHaveLength(2);
    await expect(list(b64("/drive-scsi0/raw"), child)).rejects.toThrow("no files can be listed here");
  });

  test("are downloaded alone, or packed with their directory", async () => {
    await archive();
    expect(await download("/drive-scsi0/raw/etc/hostname")).toEqual({
      name: "hostname",
      bytes: Buffer.from("web\n"),
    });
    const zip = await download("/drive-scsi0/raw/etc");
    expect(zip.name).toBe("etc.zip");
    expect(zip.bytes.toString("latin1")).toContain("etc/hostname");
    expect((await download("/drive-scsi0/raw", true)).name).toBe("raw.tar.zst");
    await expect(download("/drive-scsi0")).rejects.toThrow("choose one inside a partition");
  });

  test("are refused to those who may not, and where there is nothing", async () => {
    await archive();
    await expect(list("/", `local:backup/${FULL}`, { "/storage/local": [] })).rejects.toThrow(
      "Permission check failed",
    );
    await expect(list("/", `other:backup/${FULL}`)).rejects.toMatchObject({
      errors: { volume: "storage ID mismatch (other != local)." },
    });
    expect(await list("/", FULL)).toEqual(await list("/", `backup/${FULL}`));
    await expect(list("/", "local:backup/vzdump-lxc-100-2026_01_01-00_00_00.tar.zst")).rejects.toMatchObject({
      errors: { volume: "only backups of VMs can be looked into" },
    });
    await expect(list(b64("/../x"))).rejects.toMatchObject({ errors: { filepath: "invalid path" } });
    await expect(list(b64("/drive-scsi9"))).rejects.toThrow("no drive 'drive-scsi9'");
    await expect(list(b64("/drive-scsi0/part1"))).rejects.toThrow("no partition 'part1'");
    await expect(list(b64("/drive-scsi0/raw/nothing"))).rejects.toThrow("no such file");
  });
});
