// Chains of backups: real archives, qemu-img and qemu-nbd; QEMU with its bitmaps is made up where one runs.
import { createHash } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { bitmapOf, isChain } from "@gpve/domain/backup/backup-chain.ts";
import type { BackupTools, TrackedDisk } from "@gpve/domain/backup/backup-ports.ts";
import { nodeName } from "@gpve/domain/vm/argv/block/block-node.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { exec } from "@gpve/kit/exec.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { OperationView } from "@gpve/kit/operation/record.ts";
import type { MemoryTaskLogs } from "@gpve/kit/testing/memory-task-logs.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { openChain } from "../../../application/qemu/chain/archive-chain.ts";
import { vmBackup } from "../../../application/qemu/backup/backup-vm.ts";
import { backupOperation } from "../../../application/guest/backup/backup-operation.ts";
import { pruneOldBackups } from "../../../application/guest/backup/prune-old-backups.ts";
import { restoreVmOperation } from "../../../application/qemu/restore/restore-vm.ts";
import { dropInconsistentBitmaps } from "../../../application/qemu/chain/track-changes.ts";
import { hostBackupTools } from "../../../infrastructure/backup/host-backup-tools.ts";
import { Refused } from "../../../testing/fake-qmp.ts";
import { contextOf, type Rights } from "../../../testing/storage-world.ts";
import { VmWorld } from "../../../testing/vm-world.ts";
import { createBackupExtensions } from "./backup-extensions.ts";
import { plainPlugins } from "../../../testing/plain-plugins.ts";

const MIB = 1024 * 1024;
const hasTools = existsSync("/usr/bin/qemu-nbd");

let world: VmWorld;
let engine: OperationEngine;
let tools: BackupTools;
let logs: MemoryTaskLogs;
let extension: (params: object, rights?: Rights) => Promise<unknown>;
let second = 0;

beforeEach(async () => {
  second = 0;
  world = await VmWorld.open();
  const made = testEngine();
  engine = made.engine;
  logs = made.logs;
  tools = {
    ...hostBackupTools({ ...plainPlugins(), clock: systemClock, socketFolder: world.root }),
    localMoment: () => {
      second++;
      return { year: 2026, month: 1, day: 1, hour: 0, minute: Math.floor(second / 60), second: second % 60 };
    },
  };
  engine.register(
    backupOperation({ ...world.host, backupOf: () => vmBackup(world.host, tools) }, tools, (vmid, work) =>
      engine.withResource(`vm/${vmid}`, {}, work),
    ),
  );
  engine.register(restoreVmOperation(world.host, tools));
  await engine.start();
  const ports = { configs: world.host.configs, storages: world.host.storages, clock: world.host.clock };
  const routes = createBackupExtensions({
    host: { ...ports, clusterName: () => "lab" },
    engine,
  });
  extension = async (params, rights) =>
    routes["POST /gpve/nodes/{node}/vms/{vmid}/backup"]?.(params as never, contextOf(rights));
});
afterEach(async () => {
  await engine.stop();
  world.remove();
});

const folder = (): string => join(world.root, "local", "dump");
const dumps = (): string[] =>
  existsSync(folder())
    ? readdirSync(folder())
        .filter((name) => /\.(vma|gpvi)\.zst$/.test(name))
        .toSorted()
    : [];
const backup = async (
  vmid: number,
  body: object = {},
): Promise<{ name: string; log: string; task: OperationView }> => {
  const before = dumps();
  const upid = String(await extension({ vmid, storage: "local", backup: body, requestId: undefined }));
  const task = await engine.wait(upid);
  return {
    name: dumps().find((each) => !before.includes(each)) ?? "",
    log: (logs.lines.get(upid) ?? []).join("\n"),
    task,
  };
};
const restore = async (vmid: number, name: string): Promise<OperationView> => {
  const args = { vmid, archive: `local:backup/${name}`, unique: false, start: false, storages: ["local"] };
  return engine.wait(
    (await engine.submit({ type: "qmrestore", resources: [`vm/${vmid}`], args, actor: "root@pam" })).upid,
  );
};
const path = (volname: string): string => world.storages.find("local").plugin.path(volname);
const io = (volname: string, ...commands: string[]): Promise<unknown> =>
  exec("qemu-io", ["-f", "qcow2", ...commands.flatMap((command) => ["-c", command]), path(volname)]);
const hashOf = async (file: string): Promise<string> => {
  const copy = join(world.root, "check.raw");
  await exec("qemu-img", ["convert", "-O", "raw", file, copy]);
  return createHash("sha256").update(readFileSync(copy)).digest("hex");
};

describe.skipIf(!hasTools)("incremental backups of stopped VMs (skipped without qemu-utils)", () => {
  test("restore to the bytes of their time, with disks that came, went and grew", async () => {
    const volname = await world.addWithDisk(100, { name: "web" });
    await io(volname, "write -P 1 0 512k");
    const made = [{ ...(await backup(100)), hash: await hashOf(path(volname)) }];
    await io(volname, "write -P 2 64k 64k", "write -z 256k 128k");
    made.push({ ...(await backup(100)), hash: await hashOf(path(volname)) });
    const plugin = world.storages.find("local").plugin;
    await plugin.resize(volname, 2 * MIB);
    await io(volname, "write -P 3 1536k 64k");
    const added = await plugin.alloc({ vmid: 100, format: "qcow2", size: MIB });
    await io(added, "write -P 4 0 64k");
    await world.configs.change(100, (config) => ({
      ...config,
      values: { ...config.values, scsi1: `local:${added},size=1M` },
    }));
    made.push({ ...(await backup(100)), hash: await hashOf(path(volname)) });
    expect(made.map(({ name }) => name.replace(/^.*\d\./, ""))).toEqual(["vma.zst", "gpvi.zst", "gpvi.zst"]);
    expect(made[0]?.log).toContain("full backup: there is no earlier backup");
    expect(made[2]?.log).toContain(`on top of '${made[1]?.name}'`);
    expect(made[2]?.log).toMatch(/scsi0: dirty-bitmap status: OK \(64\.0 KiB of 2\.0 MiB dirty\)/);
    for (const [index, { name, hash }] of made.entries()) {
      expect(await restore(110 + index, name)).toMatchObject({ state: "done" });
      const [disk = ""] = world.images(110 + index);
      expect(await hashOf(path(`${110 + index}/${disk}`)), name).toBe(hash);
    }
    expect(world.images(112)).toHaveLength(2);
    expect(await hashOf(path(`112/${world.images(112)[1]}`))).toBe(await hashOf(path(added)));
    const rows = await plugin.list({ content: ["backup"] });
    expect(rows.map(({ format, parent }) => [format, parent])).toEqual([
      ["vma.zst", undefined],
      ["gpvi", `backup/${made[0]?.name}`],
      ["gpvi", `backup/${made[1]?.name}`],
    ]);
    // Without the file beside it, the archive itself says it.
    rmSync(join(folder(), `${made[2]?.name}.parent`));
    await expect(plugin.free(`backup/${made[1]?.name}`)).rejects.toThrow(`'${made[2]?.name}' builds on it`);
    expect(await plugin.free(`backup/${made[2]?.name}`)).toBe(true);
    // One bitmap a disk: those of earlier backups are gone.
    expect(await tools.imageBitmaps(path(volname))).toHaveLength(1);
  });

  test("are full when their parent is gone or another, after a drop, and when a disk keeps no bitmap", async () => {
    const volname = await world.addWithDisk(100);
    const first = await backup(100, { incremental: false });
    expect(first.log).not.toContain("full backup:");
    rmSync(join(folder(), first.name));
    expect((await backup(100)).log).toMatch(/full backup: the last backup '.*' cannot be built on/);
    const other = (await backup(100)).name;
    const parent = world.host.chains.get(100)["local"];
    copyFileSync(join(folder(), dumps()[0] ?? ""), join(folder(), other));
    expect((await backup(100)).log).toMatch(/cannot be built on|is not the backup that was made last/);
    expect(isChain(parent)).toBe(true);
    await world.host.chains.drop(100, "because");
    await world.host.chains.drop(100, "not told twice");
    expect((await backup(100)).log).toContain("full backup: because");
    expect((await backup(100)).name).toContain("gpvi");
    // Rolled back: QEMU refuses beside bitmaps, so they go with it.
    const plugin = world.storages.find("local").plugin;
    await plugin.snapshot(volname, "one");
    await plugin.rollback(volname, "one");
    expect((await backup(100)).log).toContain("no dirty bitmap of the last backup");
    const raw = await world.addWithDisk(101, {}, "raw");
    expect((await backup(101)).log).toContain("changes of disk 'scsi0' cannot be tracked");
    expect((await backup(101)).log).toContain("full backup: disk 'scsi0': a stopped VM's raw image");
    expect(raw).toContain("raw");
    const base = await plugin.createBase(volname);
    await world.configs.change(100, (config) => ({
      ...config,
      values: { ...config.values, scsi0: `local:${base},size=1M`, template: "1" },
    }));
    expect((await backup(100)).log).toContain("a template's disks do not change");
    await world.host.chains.forget(100);
    await world.host.chains.forget(100);
    expect(world.host.chains.get(100)).toEqual({});
  });

  test("come by the tag too, and need the right to save the VM", async () => {
    await world.addWithDisk(100, { tags: "web;incremental-backup" });
    await backup(100);
    expect((await backup(100, { incremental: false })).name).toContain("gpvi");
    await expect(extension({ vmid: 100, storage: "local" }, { "/vms/100": [] })).rejects.toThrow(
      "Permission check failed",
    );
    await expect(extension({ vmid: 999, storage: "local" })).rejects.toThrow("there is no VM 999");
    const more = { compress: "none", notes: "{{vmid}}", protected: true, mode: "stop" };
    const upid = String(await extension({ vmid: 100, storage: "local", backup: more, requestId: "same" }));
    expect(String(await extension({ vmid: 100, storage: "local", backup: more, requestId: "same" }))).toBe(
      upid,
    );
    expect(await engine.wait(upid)).toMatchObject({ state: "done" });
  });

  test("restore nothing from chains that cannot be true, and are kept with their parents in plain folders", async () => {
    await world.addWithDisk(100);
    const full = await backup(100);
    const child = await backup(100);
    const plugin = world.storages.find("local").plugin;
    const link = await tools.openIncremental(join(folder(), child.name));
    await link.close();
    const { header } = link;
    const odd = async (name: string, change: object): Promise<string> => {
      const file = `vzdump-qemu-100-2027_01_01-00_00_0${name}.gpvi`;
      const writer = await tools.createIncremental(join(folder(), file), { ...header, ...change });
      await writer.finish();
      return file;
    };
    const devices = [{ name: "drive-scsi9", size: 1024, whole: false }];
    const reader = await openChain(tools, plugin, await odd("1", { devices }));
    await expect(reader.clusters()[Symbol.asyncIterator]().next()).rejects.toThrow(
      "has disk 'drive-scsi9' whole",
    );
    await reader.close();
    const self = { name: "vzdump-qemu-100-2027_01_01-00_00_02.gpvi", uuid: header.uuid };
    await odd("2", { parent: self });
    await expect(openChain(tools, plugin, self.name)).rejects.toThrow("has no end");
    const plain = join(world.root, "plain");
    mkdirSync(plain);
    for (const name of [full.name, child.name]) copyFileSync(join(folder(), name), join(plain, name));
    const broken = "vzdump-qemu-100-2025_01_01-00_00_00.gpvi.zst";
    writeFileSync(join(plain, broken), "x");
    const lines: string[] = [];
    const guest = { type: "qemu", vmid: 100 } as const;
    await pruneOldBackups({ folder: plain }, tools, guest, { "keep-last": 1 }, (line) => lines.push(line));
    expect(readdirSync(plain).toSorted()).toEqual([full.name, child.name].toSorted());
    expect(lines.join("\n")).toContain(broken);
  });
});

describe.skipIf(!hasTools)("incremental backups of running VMs (skipped without qemu-utils)", () => {
  const bitmaps = new Map<string, { inconsistent: boolean; recording: boolean }>();
  let node = "";
  const dirty: [number, number] = [65_536, 131_072];

  async function runVm(): Promise<Buffer> {
    const volname = await world.addWithDisk(100);
    node = nodeName("f", "scsi0", `local:${volname}`, world.host.ids.sha256Hex);
    bitmaps.clear();
    const data = Buffer.alloc(MIB, 7);
    const { answers } = world.guests;
    for (const name of [
      "blockdev-add",
      "blockdev-del",
      "block-job-cancel",
      "nbd-server-start",
      "nbd-server-stop",
    ])
      answers.set(name, () => ({}));
    answers.set("block-export-add", () => ({}));
    answers.set("query-jobs", () => []);
    answers.set("query-named-block-nodes", () => [
      { "node-name": "other" },
      { "node-name": node, "dirty-bitmaps": [...bitmaps].map(([name, state]) => ({ name, ...state })) },
    ]);
    answers.set("block-dirty-bitmap-add", ({ name }) => {
      bitmaps.set(String(name), { inconsistent: false, recording: false });
      return {};
    });
    answers.set("block-dirty-bitmap-remove", ({ name }) => {
      if (!bitmaps.delete(String(name))) throw new Refused("no such bitmap");
      return {};
    });
    answers.set("transaction", ({ actions }) => {
      for (const { type, data: what } of actions as { type: string; data: { name: string } }[]) {
        const bitmap = bitmaps.get(what.name);
        if (type === "block-dirty-bitmap-enable" && bitmap !== undefined) bitmap.recording = true;
        if (type === "block-dirty-bitmap-disable" && bitmap !== undefined) bitmap.recording = false;
      }
      return {};
    });
    const disk: TrackedDisk = {
      size: data.length,
      read: async (offset, length) => data.subarray(offset, offset + length),
      extents: async (offset, length) => [{ length: Math.min(length, data.length - offset), isZero: false }],
      changes: async (offset) =>
        offset < dirty[0]
          ? [{ length: dirty[0] - offset, isDirty: false }]
          : offset < dirty[1]
            ? [{ length: dirty[1] - offset, isDirty: true }]
            : [{ length: data.length - offset, isDirty: false }],
      write: async () => undefined,
      writeZeroes: async () => undefined,
      flush: async () => undefined,
      close: () => undefined,
    };
    tools.openExport = async () => disk;
    tools.openTrackedExport = async () => disk;
    tools.createScratch = async () => undefined;
    await world.run(100);
    return data;
  }

  test("read what one bitmap holds while the next one records", async () => {
    const data = await runVm();
    const full = await backup(100);
    expect(full.task).toMatchObject({ state: "done" });
    expect([...bitmaps.values()]).toEqual([{ inconsistent: false, recording: true }]);
    data.fill(9, ...dirty);
    const child = await backup(100);
    expect(child.log).toContain(`on top of '${full.name}'`);
    expect([...bitmaps.values()]).toEqual([{ inconsistent: false, recording: true }]);
    expect(await restore(120, child.name)).toMatchObject({ state: "done" });
    const restored = await hashOf(path(`120/${world.images(120)[0]}`));
    expect(restored).toBe(createHash("sha256").update(data).digest("hex"));
  });

  test("that fail leave the bitmaps as they were, or none to build on", async () => {
    await runVm();
    await backup(100);
    const [old = ""] = bitmaps.keys();
    const before: BackupTools = { ...tools };
    tools.openTrackedExport = async () => {
      throw new RangeError("no export");
    };
    expect((await backup(100)).task).toMatchObject({ state: "failed" });
    expect([...bitmaps]).toEqual([[old, { inconsistent: false, recording: true }]]);
    expect(dumps()).toHaveLength(1);
    world.guests.get("100")?.qmp.answers.set("transaction", () => {
      throw new Refused("not now");
    });
    const failed = await backup(100);
    expect(failed.log).toContain("is not known any more: ");
    tools.openTrackedExport = (...args) => before.openTrackedExport(...args);
    world.guests.get("100")?.qmp.answers.set("transaction", () => ({}));
    expect((await backup(100)).log).toContain("full backup: the backup before this one failed");
  });

  test("are full where QEMU found a bitmap inconsistent, and go on where it takes none", async () => {
    await runVm();
    await backup(100);
    const [old = ""] = bitmaps.keys();
    bitmaps.set(old, { inconsistent: true, recording: false });
    expect((await backup(100)).log).toMatch(/full backup: .*inconsistent/);
    expect([...bitmaps.keys()]).toHaveLength(1);
    const guest = world.guests.get("100");
    if (guest === undefined) throw new Error("no guest");
    const [now = ""] = bitmaps.keys();
    await dropInconsistentBitmaps(world.host.chains, 100, guest);
    expect(isChain(world.host.chains.get(100)["local"])).toBe(true);
    bitmaps.set(now, { inconsistent: true, recording: false });
    await dropInconsistentBitmaps(world.host.chains, 100, guest);
    expect(world.host.chains.get(100)["local"]).toMatchObject({ dropped: expect.stringContaining("QEMU") });
    expect(bitmaps.size).toBe(0);
    await dropInconsistentBitmaps(world.host.chains, 100, guest);
    guest.qmp.answers.set("block-dirty-bitmap-add", () => {
      throw new Refused("Cannot store dirty bitmaps in qcow2 v2 files");
    });
    const untracked = await backup(100);
    expect(untracked.task).toMatchObject({ state: "done" });
    expect(untracked.log).toContain("cannot be tracked");
    expect(bitmapOf("x")).toBe("gpve-x");
  });
});
