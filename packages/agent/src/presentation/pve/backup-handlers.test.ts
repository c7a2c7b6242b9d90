// Backups through their methods: real archives and qemu-nbd, VMs whose guests are made up.
import { randomBytes } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { BackupTools } from "@gpve/domain/backup/backup-ports.ts";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { exec } from "@gpve/kit/exec.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { OperationView } from "@gpve/kit/operation/record.ts";
import type { MemoryTaskLogs } from "@gpve/kit/testing/memory-task-logs.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { backupOperation } from "../../application/backup/backup-operation.ts";
import { restoreVmOperation } from "../../application/backup/restore-vm.ts";
import { hostBackupTools } from "../../infrastructure/backup/host-backup-tools.ts";
import { Refused } from "../../testing/fake-guests.ts";
import { contextOf, type Rights } from "../../testing/storage-world.ts";
import { VmWorld } from "../../testing/vm-world.ts";
import { createBackupHandlers } from "./backup-handlers.ts";

const EFI_BYTES = 528 * 1024;
const hasTools = existsSync("/usr/bin/qemu-nbd") && existsSync("/usr/bin/lzop");

let world: VmWorld;
let engine: OperationEngine;
let handlers: PveHandlers;
let tools: BackupTools;
let logs: MemoryTaskLogs;
let second = 0;
let last = "";

beforeEach(async () => {
  second = 0;
  world = await VmWorld.open();
  const test = testEngine();
  engine = test.engine;
  logs = test.logs;
  const real = hostBackupTools({ exec, clock: systemClock, socketFolder: world.root });
  // Archives are named by the second; here every backup has one of its own.
  tools = {
    ...real,
    civilTime: () => {
      second++;
      return { year: 2026, month: 1, day: 1, hour: 0, minute: Math.floor(second / 60), second: second % 60 };
    },
  };
  engine.register(
    backupOperation(world.host, tools, (vmid, work) => engine.withResource(`vm/${vmid}`, {}, work)),
  );
  engine.register(restoreVmOperation(world.host, tools));
  await engine.start();
  handlers = createBackupHandlers({
    host: world.host,
    tools,
    engine,
    poolMembers: (pool) => (pool === "web" ? [105] : undefined),
  });
});
afterEach(async () => {
  await engine.stop();
  world.remove();
});

const files = (storage = "local"): string[] => {
  const folder = join(world.root, storage, "dump");
  return existsSync(folder) ? readdirSync(folder).toSorted() : [];
};
const dumps = (storage?: string): string[] =>
  files(storage).filter((name) => /\.vma(\.(zst|gz|lzo))?$/.test(name));
const ask = async (params: object, rights?: Rights | "root"): Promise<string> => {
  const ctx = contextOf(rights === "root" ? undefined : rights);
  const root = { userid: "root@pam", authid: "root@pam" };
  last = String(
    await handlers["POST /nodes/{node}/vzdump"]?.(
      { node: "n1", ...params } as never,
      rights === "root" ? { ...ctx, actor: root } : ctx,
    ),
  );
  return last;
};
const vzdump = async (params: object, rights?: Rights): Promise<OperationView | string> => {
  const answer = await ask(params, rights);
  return answer === "OK" ? answer : engine.wait(answer);
};
/** The lines of the last task. */
const logged = (): readonly string[] => logs.lines.get(last) ?? [];
const configOf = async (name: string): Promise<string> =>
  String(
    await handlers["GET /nodes/{node}/vzdump/extractconfig"]?.(
      { node: "n1", volume: `local:backup/${name}` } as never,
      contextOf(undefined),
    ),
  );
/** QEMU says yes to all that a backup asks, and its export has this content. */
function playQemu(data: Buffer): void {
  for (const name of [
    "blockdev-add",
    "blockdev-del",
    "transaction",
    "block-job-cancel",
    "nbd-server-start",
    "nbd-server-stop",
    "block-export-add",
  ])
    world.guests.answers.set(name, () => ({}));
  world.guests.answers.set("query-jobs", () => []);
  tools.openExport = async (_socket, name) => ({
    size: name === "efidisk0" ? EFI_BYTES : data.length,
    read: async (offset, length) => data.subarray(offset, offset + length),
    extents: async (offset) => [{ length: data.length - offset, isZero: false }],
    write: async () => undefined,
    writeZeroes: async () => undefined,
    flush: async () => undefined,
    close: () => undefined,
  });
  tools.createScratch = async () => undefined;
}
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
      "notes-template": "{{guestname}} {{vmid}}\\nend",
      protected: true,
    });
    expect(done).toMatchObject({ state: "done" });
    const [name = ""] = dumps();
    const folder = join(world.root, "local", "dump");
    expect(readFileSync(join(folder, `${name}.notes`), "utf8")).toBe("web 100\nend");
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
    playQemu(data);
    await world.run(100);
    expect(await vzdump({ vmid: "100", storage: "local", mode: "suspend" })).toMatchObject({ state: "done" });
    const [name = ""] = dumps();
    expect(await restore(102, `local:backup/${name}`)).toMatchObject({ state: "done" });
    expect(content(102, "vm-102-disk-0.raw").equals(data)).toBe(true);
    const guest = world.guests.get("100");
    expect(guest).toMatchObject({ status: "running", files: [] });
    const sent = guest?.qmp.commands.map((command) => command.name) ?? [];
    expect(sent.indexOf("stop")).toBeLessThan(sent.indexOf("transaction"));
    expect(sent.indexOf("cont")).toBeGreaterThan(sent.indexOf("transaction"));
    expect(sent).toContain("blockdev-del");
    expect(world.values(100)["lock"]).toBeUndefined();
  });

  test("stop the guest for its backup, and start it again as soon as its disks are held", async () => {
    const data = await addFilled(100);
    playQemu(data);
    world.guests.answers.set("system_powerdown", async () => {
      await world.guests.get("100")?.end("shutdown");
      return {};
    });
    await world.run(100);
    expect(await vzdump({ vmid: "100", storage: "local", mode: "stop" })).toMatchObject({ state: "done" });
    expect(world.guests.starts).toHaveLength(2);
    expect(world.guests.get("100")?.status).toBe("running");
    for (const line of [
      "INFO: stopping virtual guest",
      "INFO: starting kvm to execute backup task",
      "INFO: resuming VM again after 0 seconds",
      "INFO: Finished Backup of VM 100 (00:00:00)",
    ])
      expect(logged()).toContain(line);
    // QEMU refuses the backup: the guest, which is down by then, runs again, and nothing is left of the archive.
    world.guests.answers.set("transaction", () => {
      throw new Refused("no bitmap for you");
    });
    expect(await vzdump({ vmid: "100", storage: "local", mode: "stop" })).toMatchObject({
      exitStatus: "job errors",
    });
    expect(world.guests.get("100")?.status).toBe("running");
    // It cannot even be started for its backup: it is started for itself.
    world.guests.failure = new Error("no memory");
    expect(await vzdump({ vmid: "100", storage: "local", mode: "stop" })).toMatchObject({ state: "failed" });
    expect(world.guests.get("100")?.status).toBe("running");
    expect(logged()).toContain("INFO: restarting vm");
    expect(dumps()).toHaveLength(1);
    expect(files().filter((file) => file.includes(".dat"))).toEqual([]);
    expect(world.values(100)["lock"]).toBeUndefined();
  });

  test("leave a guest running that does not shut down in time, and one paused that was paused", async () => {
    const data = await addFilled(100);
    playQemu(data);
    await world.run(100);
    expect(await vzdump({ vmid: "100", storage: "local", mode: "stop", stopwait: 0 })).toMatchObject({
      exitStatus: "job errors",
    });
    expect(logged().join("\n")).toContain("Backup of VM 100 failed - VM quit/powerdown failed - got timeout");
    expect(world.guests.get("100")?.status).toBe("running");
    await world.guests.get("100")?.qmp.execute("stop");
    expect(await vzdump({ vmid: "100", storage: "local" })).toMatchObject({ state: "done" });
    expect(world.guests.get("100")?.status).toBe("paused");
  });

  test("freeze the guest's file systems for the moment, unless that is switched off or nobody answers", async () => {
    const data = await addFilled(100);
    playQemu(data);
    const agent = (text: string) =>
      world.configs.change(100, (config) => ({ ...config, values: { ...config.values, agent: text } }));
    await world.run(100);
    await agent("1");
    expect(await vzdump({ vmid: "100", storage: "local" })).toMatchObject({ state: "done" });
    expect(logged()).toContain("INFO: skipping guest-agent 'fs-freeze', agent configured but not running?");
    world.agentAnswers = true;
    expect(await vzdump({ vmid: "100", storage: "local" })).toMatchObject({ state: "done" });
    expect(world.agentCommands).toEqual(["guest-fsfreeze-freeze", "guest-fsfreeze-thaw"]);
    await agent("1,freeze-fs=0");
    expect(await vzdump({ vmid: "100", storage: "local" })).toMatchObject({ state: "done" });
    expect(logged()).toContain("INFO: skipping guest-agent 'fs-freeze', disabled in VM options");
    expect(world.agentCommands).toHaveLength(2);
  });

  test("can be stopped, and leave neither a lock nor a part of an archive", async () => {
    const data = await addFilled(100);
    playQemu(data);
    await world.run(100);
    // 1 KiB/s: it would take an hour.
    const answer = await ask({ vmid: "100", storage: "local", bwlimit: 1, mode: "suspend" }, "root");
    while (!files().some((file) => file.endsWith(".dat"))) await systemClock.sleep(5);
    expect(world.values(100)["lock"]).toBe("backup");
    await expect(ask({ stop: true }, { "/": ["Sys.Modify"] })).rejects.toThrow("Permission check failed");
    expect(await ask({ stop: true }, "root")).toBe("OK");
    expect(await engine.wait(answer)).toMatchObject({ state: "cancelled" });
    expect(files().filter((file) => !file.endsWith(".log"))).toEqual([]);
    expect(world.values(100)["lock"]).toBeUndefined();
    expect(world.guests.get("100")).toMatchObject({ status: "running", files: [] });
  });

  test("leave out what is not to be saved and say so, and refuse what is no volume", async () => {
    const volname = await world.addWithDisk(100);
    await world.add(
      103,
      {
        scsi0: `local:${volname},backup=0,size=1M`,
        efidisk0: `local:${volname},size=1M`,
        ide2: "none,media=cdrom",
        unused0: "local:103/gone.raw",
        parent: "before",
      },
      { snapshots: { before: {} }, pending: { cores: "2" } },
    );
    expect(await vzdump({ vmid: "103", storage: "local" })).toMatchObject({ state: "done" });
    expect(logged()).toEqual(
      expect.arrayContaining([
        `INFO: exclude disk 'scsi0' 'local:${volname}' (backup=no)`,
        "INFO: excluding 'efidisk0' (efidisks can only be backed up when BIOS is set to 'ovmf')",
        "INFO: skip unused drive 'local:103/gone.raw' (not included into backup)",
        "INFO: snapshots found (not included into backup)",
        "INFO: pending configuration changes found (not included into backup)",
        "INFO: backup contains no disks",
      ]),
    );
    await world.add(104, { scsi0: "/dev/null" });
    expect(await vzdump({ vmid: "104,103", storage: "local" })).toMatchObject({ exitStatus: "job errors" });
    expect(logged()).toContain("INFO: Backup job finished with errors");
    await world.add(105, { scsi0: "local:105/vm-105-disk-0.raw" });
    expect(await vzdump({ vmid: "105", storage: "local" })).toMatchObject({ state: "failed" });
    expect(logged().join("\n")).toContain("no such volume 'local:105/vm-105-disk-0.raw'");
    await world.configs.change(103, (config) => ({ ...config, values: { ...config.values, lock: "clone" } }));
    expect(await vzdump({ vmid: "103", storage: "local" })).toMatchObject({ state: "failed" });
    expect(world.values(103)["lock"]).toBe("clone");
    expect(logged()).toContain("ERROR: Backup of VM 103 failed - VM is locked (clone)");
  });

  test("save the state of a TPM and of firmware with the disks", async () => {
    const plugin = world.storages.find("local").plugin;
    const volname = await world.addWithDisk(100, { bios: "ovmf" }, "raw");
    const tpm = await plugin.alloc({ vmid: 100, format: "raw", size: 4 * 1024 * 1024 });
    const efi = await plugin.alloc({ vmid: 100, format: "raw", size: EFI_BYTES });
    writeFileSync(plugin.path(tpm), Buffer.alloc(4 * 1024 * 1024, 7));
    await world.configs.change(100, (config) => ({
      ...config,
      values: { ...config.values, tpmstate0: `local:${tpm},version=v2.0`, efidisk0: `local:${efi}` },
    }));
    playQemu(readFileSync(plugin.path(volname)));
    await world.run(100);
    expect(await vzdump({ vmid: "100", storage: "local" })).toMatchObject({ state: "done" });
    const [name = ""] = dumps();
    expect(await configOf(name)).toContain("#qmdump#map:tpmstate0:drive-tpmstate0-backup:local:raw:");
    expect(await configOf(name)).toContain("#qmdump#map:efidisk0:drive-efidisk0:local:raw:");
    expect(await restore(101, `local:backup/${name}`)).toMatchObject({ state: "done" });
    const restored = /local:(101\/[^,]+)/.exec(world.values(101)["tpmstate0"] ?? "")?.[1] ?? "";
    expect(readFileSync(plugin.path(restored))).toEqual(Buffer.alloc(4 * 1024 * 1024, 7));
  });

  test("choose guests of this node, and need the right to save each", async () => {
    await addFilled(100);
    await addFilled(105);
    await world.records.transact((tx) =>
      tx.put(guestCollection, "200", guestRecord({ vmid: 200, type: "qemu", node: "n2", conf: "" })),
    );
    expect(await vzdump({ vmid: "200", storage: "local" })).toBe("OK");
    expect(await vzdump({ vmid: "999", storage: "local" })).toMatchObject({ exitStatus: "job errors" });
    expect(logged()).toContain("ERROR: Backup of VM 999 failed - unable to find VM '999'");
    expect(await vzdump({ all: true, exclude: "105" })).toMatchObject({ state: "done" });
    expect(dumps()).toHaveLength(1);
    expect(logged()).toContain("INFO: skip external VMs: 200");
    expect(await vzdump({ pool: "web" })).toMatchObject({ state: "done" });
    expect(dumps()).toHaveLength(2);
    await expect(vzdump({ pool: "nowhere" })).rejects.toThrow("pool 'nowhere' does not exist");
    expect(
      await vzdump(
        { all: true },
        { "/vms/105": ["VM.Backup"], "/storage/local": ["Datastore.AllocateSpace"] },
      ),
    ).toMatchObject({ state: "done" });
    expect(dumps()).toHaveLength(3);
    await expect(vzdump({ storage: "local" })).rejects.toMatchObject({
      errors: { vmid: "property is missing" },
    });
    await expect(
      vzdump({ vmid: "100", storage: "local" }, { "/storage/local": ["Datastore.AllocateSpace"] }),
    ).rejects.toThrow("Permission check failed");
    await expect(vzdump({ vmid: "100", storage: "local" }, { "/vms/100": ["VM.Backup"] })).rejects.toThrow(
      "Permission check failed",
    );
  });

  test.each([
    [{ dumpdir: "/x" }, { dumpdir: "Only root may set this option." }],
    [{ tmpdir: "/x" }, { tmpdir: "Only root may set this option." }],
    [{ script: "/x" }, { script: "Only root may set this option." }],
    [{ "job-id": "x" }, { "job-id": "Only root may set this option." }],
    [{ stdout: true }, { stdout: "option is only allowed on the command line interface." }],
  ])("with %j are refused over the API to others than root", async (params, errors) => {
    await expect(vzdump({ vmid: "100", ...params })).rejects.toMatchObject({ errors });
  });

  test.each([
    [{ bwlimit: 1 }],
    [{ fleecing: "enabled=1,storage=local" }],
    [{ "prune-backups": "keep-last=1" }],
    [{ stop: true }],
  ])("with %j need more than the right to back up", async (params) => {
    const rights = { "/vms/100": ["VM.Backup"] };
    await expect(vzdump({ vmid: "100", ...params }, rights)).rejects.toThrow("Permission check failed");
  });

  test("go to a folder that root names, with a script that hears of every phase", async () => {
    await addFilled(100);
    const dumpdir = join(world.root, "elsewhere");
    const heard = join(world.root, "heard");
    const script = join(world.root, "hook.sh");
    writeFileSync(script, `#!/bin/sh\necho "$@" $VMTYPE $STOREID >> ${heard}\necho hello\n`);
    const params = { vmid: "100", dumpdir, script, "prune-backups": "keep-last=1", compress: "zstd" };
    const run = async (more: object = {}) => engine.wait(await ask({ ...params, ...more }, "root"));
    expect(await run()).toMatchObject({ exitStatus: `dumpdir '${dumpdir}' does not exist` });
    mkdirSync(dumpdir);
    expect(await run({ tmpdir: "/nowhere" })).toMatchObject({
      exitStatus: "tmpdir '/nowhere' does not exist",
    });
    expect(await run()).toMatchObject({ exitStatus: `The hook script '${script}' is not executable.` });
    chmodSync(script, 0o755);
    expect(await run({ tmpdir: world.root })).toMatchObject({ state: "done" });
    expect(readFileSync(heard, "utf8").trim().split("\n")).toEqual([
      "job-init",
      "job-start",
      "backup-start stop 100 qemu",
      "backup-end stop 100 qemu",
      "log-end stop 100 qemu",
      "job-end",
    ]);
    expect(logged()).toContain("INFO: hello");
    writeFileSync(join(dumpdir, "vzdump-qemu-100-2020_01_01-00_00_00.vma"), "old");
    writeFileSync(join(dumpdir, "vzdump-qemu-100-2020_01_01-00_00_00.vma.protected"), "");
    expect(await run()).toMatchObject({ state: "done" });
    expect(logged()).toContain("INFO: pruned 1 backup(s) not covered by keep-retention policy");
    expect(readdirSync(dumpdir).filter((name) => /\.vma(\.zst)?$/.test(name))).toHaveLength(2);
    writeFileSync(script, "#!/bin/sh\n[ $1 != backup-start ]\n");
    expect(await run()).toMatchObject({ exitStatus: "job errors" });
    writeFileSync(script, "#!/bin/sh\n[ $1 != job-start ]\n");
    expect((await run()).exitStatus).toContain("hook.sh");
    await expect(ask({ ...params, storage: "local" }, "root")).rejects.toThrow(
      "cannot use options 'storage' and 'dumpdir' at the same time",
    );
  });

  test("keep as many as the storage says, never remove a protected one, and refuse one too many", async () => {
    await addFilled(100);
    world.define("kept", {
      content: "backup",
      "prune-backups": "keep-last=2",
      "max-protected-backups": 1,
    });
    const run = (more: object = {}) => vzdump({ vmid: "100", storage: "kept", ...more });
    expect(await run({ protected: true })).toMatchObject({ state: "done" });
    expect(await run({ protected: true })).toMatchObject({ state: "failed" });
    expect(logged().join("\n")).toContain("The number of protected backups per guest is limited to 1");
    for (let count = 0; count < 3; count++) expect(await run()).toMatchObject({ state: "done" });
    expect(dumps("kept")).toHaveLength(3);
    expect(logged()).toContain("INFO: prune older backups with retention: keep-last=2");
    expect(await run({ remove: false })).toMatchObject({ state: "failed" });
    expect(logged().join("\n")).toContain("There is a max backup limit of 2 enforced by the target storage");
    world.define("disks", { content: "images" });
    expect(await run({ storage: "disks" })).toMatchObject({
      exitStatus: expect.stringContaining("can't use storage 'disks' for backups - wrong content type"),
    });
    await expect(run({ storage: "nowhere" })).rejects.toThrow("storage 'nowhere' does not exist");
  });

  test("go on without notes that name what is not known", async () => {
    await addFilled(100);
    expect(await vzdump({ vmid: "100", storage: "local", "notes-template": "{{other}}" })).toMatchObject({
      state: "done",
    });
    expect(logged()).toContain("WARN: unable to add notes - unexpected variable name 'other'");
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
