// Backups through their methods: real archives and qemu-nbd, VMs whose guests are made up.
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { BackupWorld, EFI_BYTES, hasBackupTools } from "../../../testing/backup-world.ts";
import { contextOf } from "../../../testing/storage-world.ts";
import { Refused } from "../../../testing/fake-qmp.ts";

let world: BackupWorld;
beforeEach(async () => {
  world = await BackupWorld.open();
});
afterEach(() => world.close());

describe.skipIf(!hasBackupTools)("backups (skipped without qemu-utils and lzop)", () => {
  test.each(["0", "1", "gzip", "zstd"])("with compression %s restore to the same bytes", async (compress) => {
    const data = await world.addFilled(100);
    const done = await world.vzdump({
      vmid: "100",
      storage: "local",
      compress,
      "notes-template": "{{guestname}} {{vmid}} {{node}} {{cluster}}\\nend",
      protected: true,
    });
    expect(done).toMatchObject({ state: "done" });
    const [name = ""] = world.dumps();
    const folder = join(world.root, "local", "dump");
    expect(readFileSync(join(folder, `${name}.notes`), "utf8")).toBe("web 100 n1 lab\nend");
    expect(existsSync(join(folder, `${name}.protected`))).toBe(true);
    expect(readdirSync(folder).some((file) => file.endsWith(".log"))).toBe(true);
    expect(await world.restore(101, name, { unique: true })).toMatchObject({ state: "done" });
    expect(world.content(101, "vm-101-disk-0.raw").equals(data)).toBe(true);
    expect(world.values(101)).toMatchObject({
      name: "web",
      scsi0: expect.stringContaining("local:101/vm-101-disk-0.raw"),
    });
    expect(world.values(101)["smbios1"]).not.toBe(world.values(100)["smbios1"]);
    const text = await world.configOf(name);
    expect(text).toContain("#qmdump#map:scsi0:drive-scsi0:local:raw:");
    const route = "GET /nodes/{node}/vzdump/extractconfig";
    const manager = { "/storage/local": ["Datastore.Allocate", "Datastore.AllocateSpace"] };
    await expect(world.call(route, { volume: `local:backup/${name}` }, manager)).rejects.toThrow(
      "(/vms/100, VM.Backup)",
    );
  });

  test("of a running VM are read through QEMU, and QEMU is left as it was", async () => {
    const data = await world.addFilled(100);
    world.playQemu(data);
    await world.run(100);
    expect(await world.vzdump({ vmid: "100", storage: "local", mode: "suspend" })).toMatchObject({
      state: "done",
    });
    const [name = ""] = world.dumps();
    expect(await world.restore(102, name)).toMatchObject({ state: "done" });
    expect(world.content(102, "vm-102-disk-0.raw").equals(data)).toBe(true);
    const guest = world.guests.get("100");
    expect(guest).toMatchObject({ status: "running", files: [] });
    const sent = guest?.qmp.commands.map((command) => command.name) ?? [];
    expect(sent.indexOf("stop")).toBeLessThan(sent.indexOf("transaction"));
    expect(sent.indexOf("cont")).toBeGreaterThan(sent.indexOf("transaction"));
    expect(sent).toContain("blockdev-del");
    expect(world.values(100)["lock"]).toBeUndefined();
  });

  test("of a VM that is just being started wait for that, and find it running", async () => {
    const data = await world.addFilled(100);
    world.playQemu(data);
    let saved: Promise<unknown> | undefined;
    await world.engine.withResource("vm/100", {}, async () => {
      saved = world.vzdump({ vmid: "100", storage: "local" });
      await vi.waitFor(() => expect(world.logged()).toContain("INFO: Starting Backup of VM 100 (qemu)"), {
        timeout: 30_000,
      });
      await world.run(100);
    });
    expect(await saved).toMatchObject({ state: "done" });
    expect(world.logged()).toEqual(
      expect.arrayContaining(["INFO: status = running", "INFO: backup mode: snapshot"]),
    );
  });

  test("stop the guest for its backup, and start it again as soon as its disks are held", async () => {
    const data = await world.addFilled(100);
    world.playQemu(data);
    world.guests.answers.set("system_powerdown", async () => {
      await world.guests.get("100")?.end("shutdown");
      return {};
    });
    await world.run(100);
    expect(await world.vzdump({ vmid: "100", storage: "local", mode: "stop" })).toMatchObject({
      state: "done",
    });
    expect(world.guests.starts).toHaveLength(2);
    expect(world.guests.get("100")?.status).toBe("running");
    for (const line of [
      "INFO: stopping virtual guest",
      "INFO: starting kvm to execute backup task",
      "INFO: resuming VM again after 0 seconds",
      "INFO: Finished Backup of VM 100 (00:00:00)",
    ])
      expect(world.logged()).toContain(line);
    // QEMU refuses the backup: the guest, which is down by then, runs again, and nothing is left of the archive.
    world.guests.answers.set("transaction", () => {
      throw new Refused("no bitmap for you");
    });
    expect(await world.vzdump({ vmid: "100", storage: "local", mode: "stop" })).toMatchObject({
      exitStatus: "job errors",
    });
    expect(world.guests.get("100")?.status).toBe("running");
    // It cannot even be started for its backup: it is started for itself.
    world.guests.failure = new Error("no memory");
    expect(await world.vzdump({ vmid: "100", storage: "local", mode: "stop" })).toMatchObject({
      state: "failed",
    });
    expect(world.guests.get("100")?.status).toBe("running");
    expect(world.logged()).toContain("INFO: restarting vm");
    expect(world.dumps()).toHaveLength(1);
    expect(world.dumpFiles().filter((file) => file.includes(".dat"))).toEqual([]);
    expect(world.values(100)["lock"]).toBeUndefined();
  });

  test("leave a guest running that does not shut down in time, and one paused that was paused", async () => {
    const data = await world.addFilled(100);
    world.playQemu(data);
    await world.run(100);
    expect(await world.vzdump({ vmid: "100", storage: "local", mode: "stop", stopwait: 0 })).toMatchObject({
      exitStatus: "job errors",
    });
    expect(world.logged().join("\n")).toContain(
      "Backup of VM 100 failed - VM quit/powerdown failed - got timeout",
    );
    expect(world.guests.get("100")?.status).toBe("running");
    await world.guests.get("100")?.qmp.execute("stop");
    expect(await world.vzdump({ vmid: "100", storage: "local" })).toMatchObject({ state: "done" });
    expect(world.guests.get("100")?.status).toBe("paused");
  });

  test("freeze the guest's file systems for the moment, unless that is switched off or nobody answers", async () => {
    const data = await world.addFilled(100);
    world.playQemu(data);
    const agent = (text: string) =>
      world.configs.change(100, (config) => ({ ...config, values: { ...config.values, agent: text } }));
    await world.run(100);
    await agent("1");
    expect(await world.vzdump({ vmid: "100", storage: "local" })).toMatchObject({ state: "done" });
    expect(world.logged()).toContain(
      "INFO: skipping guest-agent 'fs-freeze', agent configured but not running?",
    );
    world.agentAnswers = true;
    expect(await world.vzdump({ vmid: "100", storage: "local" })).toMatchObject({ state: "done" });
    expect(world.agentCommands).toEqual(["guest-fsfreeze-freeze", "guest-fsfreeze-thaw"]);
    await agent("1,freeze-fs=0");
    expect(await world.vzdump({ vmid: "100", storage: "local" })).toMatchObject({ state: "done" });
    expect(world.logged()).toContain("INFO: skipping guest-agent 'fs-freeze', disabled in VM options");
    expect(world.agentCommands).toHaveLength(2);
  });

  test("can be stopped, and leave neither a lock nor a part of an archive", async () => {
    const data = await world.addFilled(100);
    world.playQemu(data);
    await world.run(100);
    // 1 KiB/s: it would take an hour.
    const answer = await world.ask({ vmid: "100", storage: "local", bwlimit: 1, mode: "suspend" }, "root");
    while (!world.dumpFiles().some((file) => file.endsWith(".dat"))) await systemClock.sleep(5);
    expect(world.values(100)["lock"]).toBe("backup");
    await expect(world.ask({ stop: true }, { "/": ["Sys.Modify"] })).rejects.toThrow(
      "Permission check failed",
    );
    expect(await world.ask({ stop: true }, "root")).toBe("OK");
    expect(await world.engine.wait(answer)).toMatchObject({ state: "cancelled" });
    expect(world.dumpFiles().filter((file) => !file.endsWith(".log"))).toEqual([]);
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
        ide2: "local:103/vm-103-cloudinit.qcow2,media=cdrom",
        unused0: "local:103/gone.raw",
        parent: "before",
      },
      { snapshots: { before: {} }, pending: { cores: "2" } },
    );
    const special = { cloudinit: { name: "old" } };
    await world.configs.change(103, (config) => ({ ...config, special }));
    expect(await world.vzdump({ vmid: "103", storage: "local" })).toMatchObject({ state: "done" });
    expect(world.logged()).toEqual(
      expect.arrayContaining([
        `INFO: exclude disk 'scsi0' 'local:${volname}' (backup=no)`,
        `INFO: exclude disk 'efidisk0' 'local:${volname}' (efidisk but no OMVF BIOS)`,
        "INFO: special config section found (not included into backup)",
        "INFO: skip unused drive 'local:103/gone.raw' (not included into backup)",
        "INFO: snapshots found (not included into backup)",
        "INFO: pending configuration changes found (not included into backup)",
        "INFO: backup contains no disks",
      ]),
    );
    await world.add(104, { scsi0: "/dev/null" });
    expect(await world.vzdump({ vmid: "104,103", storage: "local" })).toMatchObject({
      exitStatus: "job errors",
    });
    expect(world.logged()).toContain("INFO: Backup job finished with errors");
    await world.add(105, { scsi0: "local:105/vm-105-disk-0.raw" });
    expect(await world.vzdump({ vmid: "105", storage: "local" })).toMatchObject({ state: "failed" });
    expect(world.logged().join("\n")).toContain("no such volume 'local:105/vm-105-disk-0.raw'");
    await world.configs.change(103, (config) => ({ ...config, values: { ...config.values, lock: "clone" } }));
    expect(await world.vzdump({ vmid: "103", storage: "local" })).toMatchObject({ state: "failed" });
    expect(world.values(103)["lock"]).toBe("clone");
    expect(world.logged()).toContain("ERROR: Backup of VM 103 failed - VM is locked (clone)");
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
    world.playQemu(readFileSync(plugin.path(volname)));
    await world.run(100);
    expect(await world.vzdump({ vmid: "100", storage: "local" })).toMatchObject({ state: "done" });
    const [name = ""] = world.dumps();
    expect(await world.configOf(name)).toContain("#qmdump#map:tpmstate0:drive-tpmstate0-backup:local:raw:");
    expect(await world.configOf(name)).toContain("#qmdump#map:efidisk0:drive-efidisk0:local:raw:");
    expect(await world.restore(101, name)).toMatchObject({ state: "done" });
    const restored = /local:(101\/[^,]+)/.exec(world.values(101)["tpmstate0"] ?? "")?.[1] ?? "";
    expect(readFileSync(plugin.path(restored))).toEqual(Buffer.alloc(4 * 1024 * 1024, 7));
  });

  test("choose guests of this node, and need the right to save each", async () => {
    await world.addFilled(100);
    await world.addFilled(105);
    await world.records.transact((tx) =>
      tx.put(guestCollection, "200", guestRecord({ vmid: 200, type: "qemu", node: "n2", conf: "" })),
    );
    expect(await world.vzdump({ vmid: "200", storage: "local" })).toBe("OK");
    expect(await world.vzdump({ vmid: "999", storage: "local" })).toMatchObject({ exitStatus: "job errors" });
    expect(world.logged()).toContain("ERROR: Backup of VM 999 failed - unable to find VM '999'");
    expect(await world.vzdump({ all: true, exclude: "105" })).toMatchObject({ state: "done" });
    expect(world.dumps()).toHaveLength(1);
    expect(world.logged()).toContain("INFO: skip external VMs: 200");
    expect(await world.vzdump({ pool: "web" })).toMatchObject({ state: "done" });
    expect(world.dumps()).toHaveLength(2);
    await expect(world.vzdump({ pool: "nowhere" })).rejects.toThrow("pool 'nowhere' does not exist");
    expect(
      await world.vzdump(
        { all: true },
        { "/vms/105": ["VM.Backup"], "/storage/local": ["Datastore.AllocateSpace"] },
      ),
    ).toMatchObject({ state: "done" });
    expect(world.dumps()).toHaveLength(3);
    await expect(world.vzdump({ storage: "local" })).rejects.toMatchObject({
      errors: { vmid: "property is missing" },
    });
    await expect(
      world.vzdump({ vmid: "100", storage: "local" }, { "/storage/local": ["Datastore.AllocateSpace"] }),
    ).rejects.toThrow("Permission check failed");
    await expect(
      world.vzdump({ vmid: "100", storage: "local" }, { "/vms/100": ["VM.Backup"] }),
    ).rejects.toThrow("Permission check failed");
  });

  test.each([
    [{ dumpdir: "/x" }, { dumpdir: "Only root may set this option." }],
    [{ tmpdir: "/x" }, { tmpdir: "Only root may set this option." }],
    [{ script: "/x" }, { script: "Only root may set this option." }],
    [{ "job-id": "x" }, { "job-id": "Only root may set this option." }],
    [{ stdout: true }, { stdout: "option is only allowed on the command line interface." }],
  ])("with %j are refused over the API to others than root", async (params, errors) => {
    await expect(world.vzdump({ vmid: "100", ...params })).rejects.toMatchObject({ errors });
  });

  test.each([
    [{ bwlimit: 1 }],
    [{ fleecing: "enabled=1,storage=local" }],
    [{ "prune-backups": "keep-last=1" }],
    [{ stop: true }],
  ])("with %j need more than the right to back up", async (params) => {
    const rights = { "/vms/100": ["VM.Backup"] };
    await expect(world.vzdump({ vmid: "100", ...params }, rights)).rejects.toThrow("Permission check failed");
  });

  test("go to a folder that root names, with a script that hears of every phase", async () => {
    await world.addFilled(100);
    const dumpdir = join(world.root, "elsewhere");
    const heard = join(world.root, "heard");
    const script = join(world.root, "hook.sh");
    writeFileSync(script, `#!/bin/sh\necho "$@" $VMTYPE $STOREID >> ${heard}\necho hello\n`);
    const params = { vmid: "100", dumpdir, script, "prune-backups": "keep-last=1", compress: "zstd" };
    const run = async (more: object = {}) =>
      world.engine.wait(await world.ask({ ...params, ...more }, "root"));
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
    expect(world.logged()).toContain("INFO: hello");
    writeFileSync(join(dumpdir, "vzdump-qemu-100-2020_01_01-00_00_00.vma"), "old");
    writeFileSync(join(dumpdir, "vzdump-qemu-100-2020_01_01-00_00_00.vma.protected"), "");
    expect(await run()).toMatchObject({ state: "done" });
    expect(world.logged()).toContain("INFO: pruned 1 backup(s) not covered by keep-retention policy");
    expect(readdirSync(dumpdir).filter((name) => /\.vma(\.zst)?$/.test(name))).toHaveLength(2);
    writeFileSync(script, "#!/bin/sh\n[ $1 != backup-start ]\n");
    expect(await run()).toMatchObject({ exitStatus: "job errors" });
    writeFileSync(script, "#!/bin/sh\n[ $1 != job-start ]\n");
    expect((await run()).exitStatus).toContain("hook.sh");
    await expect(world.ask({ ...params, storage: "local" }, "root")).rejects.toThrow(
      "cannot use options 'storage' and 'dumpdir' at the same time",
    );
  });

  test("keep as many as the storage says, never remove a protected one, and refuse one too many", async () => {
    await world.addFilled(100);
    world.define("kept", {
      content: "backup",
      "prune-backups": "keep-last=2",
      "max-protected-backups": 1,
    });
    const run = (more: object = {}) => world.vzdump({ vmid: "100", storage: "kept", ...more });
    expect(await run({ protected: true })).toMatchObject({ state: "done" });
    expect(await run({ protected: true })).toMatchObject({ state: "failed" });
    expect(world.logged().join("\n")).toContain("The number of protected backups per guest is limited to 1");
    for (let count = 0; count < 3; count++) expect(await run()).toMatchObject({ state: "done" });
    expect(world.dumps("kept")).toHaveLength(3);
    expect(world.logged()).toContain("INFO: prune older backups with retention: keep-last=2");
    expect(await run({ remove: false })).toMatchObject({ state: "failed" });
    expect(world.logged().join("\n")).toContain(
      "There is a max backup limit of 2 enforced by the target storage",
    );
    world.define("disks", { content: "images" });
    expect(await run({ storage: "disks" })).toMatchObject({
      exitStatus: expect.stringContaining("can't use storage 'disks' for backups - wrong content type"),
    });
    await expect(run({ storage: "nowhere" })).rejects.toThrow("storage 'nowhere' does not exist");
  });

  test("go on without notes that name what is not known", async () => {
    await world.addFilled(100);
    expect(
      await world.vzdump({ vmid: "100", storage: "local", "notes-template": "{{other}}" }),
    ).toMatchObject({
      state: "done",
    });
    expect(world.logged()).toContain("WARN: unable to add notes - unexpected variable name 'other'");
  });
});

test("a node's defaults are shown by right, and used where a request says nothing", async () => {
  const ask = async (
    params: object,
    rights?: Readonly<Record<string, readonly string[]>>,
  ): Promise<unknown> =>
    world.handlers["GET /nodes/{node}/vzdump/defaults"]?.({ node: "n1", ...params }, contextOf(rights));
  world.settings = { compress: "zstd", script: "/hook", pool: "web" };
  expect(await ask({})).toMatchObject({
    storage: "local",
    dumpdir: join(world.root, "local", "dump"),
    compress: "zstd",
    script: "/hook",
    pool: "web",
    mode: "snapshot",
  });
  const few = await ask({}, { "/storage/local": ["Datastore.Audit"] });
  expect(few).toMatchObject({ compress: "zstd" });
  for (const key of ["script", "dumpdir", "pool", "ionice"]) expect(few).not.toHaveProperty(key);
  await expect(ask({}, {})).rejects.toThrow("Permission check failed (/storage/local");
  world.settings = { dumpdir: "/srv/dumps" };
  expect(await ask({})).toMatchObject({ dumpdir: "/srv/dumps" });
  expect(await ask({})).not.toHaveProperty("storage");
});

test.skipIf(!hasBackupTools)("a backup takes the compression its node is set to", async () => {
  await world.addFilled(100);
  world.settings = { compress: "zstd", storage: "nowhere" };
  expect(await world.vzdump({ vmid: "100", storage: "local" })).toMatchObject({ state: "done" });
  expect(world.dumps()[0]).toMatch(/\.vma\.zst$/);
});
