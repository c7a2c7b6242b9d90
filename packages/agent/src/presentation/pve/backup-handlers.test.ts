// Backups through their methods: real archives and qemu-nbd, VMs whose guests are made up.
import { randomBytes } from "node:crypto";
import { existsSync, readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { BackupTools } from "@gpve/domain/backup/backup-ports.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { exec } from "@gpve/kit/exec.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { OperationView } from "@gpve/kit/operation/record.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { backupOperation } from "../../application/backup/backup-operation.ts";
import { restoreVmOperation } from "../../application/backup/restore-vm.ts";
import { hostBackupTools } from "../../infrastructure/backup/host-backup-tools.ts";
import { contextOf, type Rights } from "../../testing/storage-world.ts";
import { VmWorld } from "../../testing/vm-world.ts";
import { createBackupHandlers } from "./backup-handlers.ts";

const hasTools = existsSync("/usr/bin/qemu-nbd") && existsSync("/usr/bin/lzop");

let world: VmWorld;
let engine: OperationEngine;
let handlers: PveHandlers;
let tools: BackupTools;
let second = 0;

beforeEach(async () => {
  world = await VmWorld.open();
  engine = testEngine().engine;
  const real = hostBackupTools({ exec, clock: systemClock, socketFolder: world.root });
  // Archives are named by the second; here every backup has one of its own.
  tools = {
    ...real,
    civilTime: () => ({ year: 2026, month: 1, day: 1, hour: 0, minute: 0, second: second++ % 60 }),
  };
  engine.register(backupOperation(world.host, tools));
  engine.register(restoreVmOperation(world.host, tools));
  await engine.start();
  handlers = createBackupHandlers({ host: world.host, tools, engine, nameOf: (vmid) => `name-${vmid}` });
});
afterEach(async () => {
  await engine.stop();
  world.remove();
});

const dumps = (): string[] => {
  const folder = join(world.root, "local", "dump");
  return existsSync(folder)
    ? readdirSync(folder)
        .filter((name) => /\.vma(\.(zst|gz|lzo))?$/.test(name))
        .toSorted()
    : [];
};
const vzdump = async (params: object, rights?: Rights): Promise<OperationView | string> => {
  const answer = String(
    await handlers["POST /nodes/{node}/vzdump"]?.({ node: "n1", ...params } as never, contextOf(rights)),
  );
  return answer === "OK" ? answer : engine.wait(answer);
};
const restore = async (vmid: number, archive: string, more: object = {}): Promise<OperationView> => {
  const args = { vmid, archive, unique: false, start: false, storages: ["local"], ...more };
  return engine.wait(
    (await engine.submit({ type: "qmrestore", resources: [`vm/${vmid}`], args, actor: "root@pam" })).upid,
  );
};
const content = (vmid: number, name: string): Buffer =>
  readFileSync(join(world.root, "local", "images", String(vmid), name));

async function addFilled(vmid: number): Promise<Buffer> {
  const volname = await world.addWithDisk(vmid, { name: "web" }, "raw");
  const path = world.storages.find("local").plugin.path(volname);
  const data = Buffer.concat([
    Buffer.alloc(300_000),
    randomBytes(200_000),
    Buffer.alloc(1024 * 1024 - 500_000),
  ]);
  writeFileSync(path, data);
  return data;
}

describe.skipIf(!hasTools)("backups (skipped without qemu-utils and lzop)", () => {
  test.each(["0", "1", "gzip", "zstd"])("with compression %s restore to the same bytes", async (compress) => {
    const data = await addFilled(100);
    const done = await vzdump({
      vmid: "100",
      storage: "local",
      compress,
      "notes-template": "{{guestname}} {{vmid}} {{other}}\\nend",
      protected: true,
    });
    expect(done).toMatchObject({ state: "done" });
    const [name = ""] = dumps();
    const folder = join(world.root, "local", "dump");
    expect(readFileSync(join(folder, `${name}.notes`), "utf8")).toBe("name-100 100 {{other}}\nend");
    expect(existsSync(join(folder, `${name}.protected`))).toBe(true);
    expect(readdirSync(folder).some((file) => file.endsWith(".log"))).toBe(true);
    expect(await restore(101, `local:backup/${name}`, { unique: true })).toMatchObject({ state: "done" });
    expect(content(101, "vm-101-disk-0.raw").equals(data)).toBe(true);
    expect(world.values(101)).toMatchObject({
      name: "web",
      scsi0: expect.stringContaining("local:101/vm-101-disk-0.raw"),
    });
    expect(world.values(101)["smbios1"]).not.toBe(world.values(100)["smbios1"]);
    const text = await handlers["GET /nodes/{node}/vzdump/extractconfig"]?.(
      { node: "n1", volume: `local:backup/${name}` } as never,
      contextOf(undefined),
    );
    expect(text).toContain("#qmdump#map:scsi0:drive-scsi0:local:raw:");
  });

  test("of a running VM are read through QEMU, and QEMU is left as it was", async () => {
    const data = await addFilled(100);
    for (const name of [
      "blockdev-add",
      "blockdev-del",
      "transaction",
      "block-job-cancel",
      "nbd-server-start",
      "nbd-server-stop",
      "block-export-add",
      "stop",
      "cont",
    ]) {
      world.guests.answers.set(name, () => ({}));
    }
    world.guests.answers.set("query-jobs", () => []);
    await world.run(100);
    tools.openExport = async () => ({
      size: data.length,
      read: async (offset, length) => data.subarray(offset, offset + length),
      extents: async (offset) => [{ length: data.length - offset, isZero: false }],
      write: async () => undefined,
      writeZeroes: async () => undefined,
      flush: async () => undefined,
      close: () => undefined,
    });
    tools.createScratch = async () => undefined;
    expect(await vzdump({ vmid: "100", storage: "local", mode: "suspend" })).toMatchObject({ state: "done" });
    const [name = ""] = dumps();
    expect(await restore(102, `local:backup/${name}`)).toMatchObject({ state: "done" });
    expect(content(102, "vm-102-disk-0.raw").equals(data)).toBe(true);
    // One VM that cannot be saved as asked, and one that QEMU refuses: the job fails, no archive is left.
    expect(await vzdump({ vmid: "100", storage: "local", mode: "stop" })).toMatchObject({ state: "failed" });
    world.guests.get("100");
    expect(dumps()).toEqual([name]);
  });

  test("leave out disks that are not to be saved, and refuse what is no volume", async () => {
    const volname = await world.addWithDisk(100);
    await world.add(103, { scsi0: `local:${volname},backup=0,size=1M` });
    expect(await vzdump({ vmid: "103", storage: "local" })).toMatchObject({ state: "done" });
    await world.add(104, { scsi0: "/dev/null" });
    expect(await vzdump({ vmid: "104,103", storage: "local" })).toMatchObject({
      state: "failed",
      exitStatus: "job errors: 1 of 2 backups failed",
    });
    expect(await vzdump({ vmid: "104", storage: "local" })).toMatchObject({ exitStatus: "job errors" });
    await world.configs.change(103, (config) => ({ ...config, values: { ...config.values, lock: "clone" } }));
    expect(await vzdump({ vmid: "103", storage: "local" })).toMatchObject({ state: "failed" });
  });

  test("choose guests of this node, and need the right to save each", async () => {
    await addFilled(100);
    await addFilled(105);
    expect(await vzdump({ vmid: "999", storage: "local" })).toBe("OK");
    expect(await vzdump({ all: true, exclude: "105" })).toMatchObject({ state: "done" });
    expect(dumps()).toHaveLength(1);
    await expect(vzdump({ storage: "local" })).rejects.toMatchObject({
      errors: { vmid: expect.any(String) },
    });
    await expect(vzdump({ vmid: "100", storage: "local" }, { "/vms/100": [] })).rejects.toThrow(
      "Permission check failed",
    );
  });
});

describe.skipIf(!hasTools)("restores (skipped without qemu-utils and lzop)", () => {
  test("of a cut archive leave nothing, whatever its compression", async () => {
    await addFilled(100);
    for (const compress of ["0", "zstd", "gzip"]) await vzdump({ vmid: "100", storage: "local", compress });
    for (const name of dumps()) {
      truncateSync(join(world.root, "local", "dump", name), 13_500);
      const failed = await restore(110, `local:backup/${name}`);
      expect(failed.state, name).toBe("failed");
      expect(failed.exitStatus, name).toContain("damaged");
      expect(world.configs.has(110)).toBe(false);
      expect(world.images(110)).toEqual([]);
    }
  });

  test("go to another storage, keep disks that were there, and fail on an archive without a configuration", async () => {
    await addFilled(100);
    await vzdump({ vmid: "100", storage: "local" });
    const [name = ""] = dumps();
    const plugin = world.storages.find("local").plugin;
    const kept = await plugin.alloc({ vmid: 111, format: "raw", size: 1024 });
    expect(await restore(111, `local:backup/${name}`, { storage: "nowhere" })).toMatchObject({
      state: "failed",
    });
    expect(world.images(111)).toEqual([kept.split("/")[1]]);
    const empty = await tools.createArchive(
      join(world.root, "local", "dump", "vzdump-qemu-1-2026_01_02-00_00_00.vma"),
      "none",
      { ctime: 1, configs: new Map(), devices: [] },
    );
    await empty.finish();
    expect(await restore(112, "local:backup/vzdump-qemu-1-2026_01_02-00_00_00.vma")).toMatchObject({
      exitStatus: "the backup archive holds no VM configuration",
    });
    const odd = await tools.createArchive(
      join(world.root, "local", "dump", "vzdump-qemu-1-2026_01_03-00_00_00.vma"),
      "none",
      {
        ctime: 1,
        configs: new Map([["qemu-server.conf", Buffer.from("#qmdump#map:scsi0:drive-scsi0:local:raw:\n")]]),
        devices: [],
      },
    );
    await odd.finish();
    expect((await restore(113, "local:backup/vzdump-qemu-1-2026_01_03-00_00_00.vma")).exitStatus).toBe(
      "the backup archive has no data for disk 'scsi0'",
    );
  });
});
