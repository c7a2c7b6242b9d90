// Live restores with real archives and a QEMU that is made up: it mirrors by reading what it was given.
import { readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { NbdClient } from "../../../infrastructure/backup/nbd/nbd-client.ts";
import { BackupWorld, EFI_BYTES, hasBackupTools } from "../../../testing/backup-world.ts";
import { Refused } from "../../../testing/fake-qmp.ts";

let world: BackupWorld;
beforeEach(async () => {
  world = await BackupWorld.open();
});
afterEach(() => world.close());

/** What was copied of each archive device by a mirror. */
function playMirror(vmid: number): void {
  const { answers } = world.guests;
  for (const name of ["blockdev-del", "blockdev-reopen", "job-dismiss", "object-add", "object-del"])
    answers.set(name, () => ({}));
  let target = "";
  let status = "running";
  answers.set("blockdev-add", (args) => {
    // Below the throttle filter is the image, and below that its file.
    target = String((args["file"] as { file: { filename: string } }).file.filename);
    return {};
  });
  answers.set("blockdev-mirror", async () => {
    const client = await NbdClient.open(world.tools.socketPath(`live-${vmid}`), "drive-scsi0");
    writeFileSync(target, await client.read(0, client.size));
    client.close();
    status = "ready";
    return {};
  });
  answers.set("job-complete", () => {
    status = "concluded";
    return {};
  });
  answers.set("query-jobs", () => [
    { id: "restore-scsi0", type: "mirror", status, "current-progress": 1, "total-progress": 2 },
  ]);
  answers.set("query-named-block-nodes", () => []);
}

describe.skipIf(!hasBackupTools)("live restores (skipped without qemu-utils and lzop)", () => {
  test.each(["0", "zstd"])(
    "of an archive with compression %s start at once and end byte for byte",
    async (compress) => {
      const data = await world.addFilled(100);
      const plugin = world.storages.find("local").plugin;
      const efi = await plugin.alloc({ vmid: 100, format: "raw", size: EFI_BYTES });
      writeFileSync(plugin.path(efi), Buffer.alloc(EFI_BYTES, 3));
      await world.configs.change(100, (config) => ({
        ...config,
        values: { ...config.values, bios: "ovmf", efidisk0: `local:${efi}` },
      }));
      await world.vzdump({ vmid: "100", storage: "local", compress });
      const [name = ""] = world.dumps();
      playMirror(101);
      const done = await world.restore(101, name, { "live-restore": true, unique: true });
      expect(done.exitStatus, world.logged().join("\n")).toBe("OK");
      const values = world.values(101);
      expect(values["lock"]).toBeUndefined();
      const file = (key: string): string => /local:101\/([^,]+)/.exec(values[key] ?? "")?.[1] ?? "";
      expect(world.content(101, file("scsi0")).equals(data)).toBe(true);
      expect(world.content(101, file("efidisk0"))).toEqual(Buffer.alloc(EFI_BYTES, 3));
      // QEMU was started on an image over the archive, which is gone by now with all that belonged to it.
      expect(world.images(101)).toEqual([file("scsi0"), file("efidisk0")].toSorted());
      expect(world.guests.starts.at(-1)?.files.map(({ path }) => path)).toContain(
        world.tools.socketPath("live-101"),
      );
      expect(world.guests.get("101")).toMatchObject({ status: "running" });
    },
  );

  test("that fail take the guest and its disks back, and the VM that was there stays", async () => {
    const data = await world.addFilled(100);
    await world.vzdump({ vmid: "100", storage: "local" });
    const [name = ""] = world.dumps();
    playMirror(100);
    world.guests.answers.set("blockdev-mirror", () => {
      throw new Refused("no room");
    });
    const before = world.configs.get(100);
    const failed = await world.restore(100, name, { "live-restore": true, force: true });
    expect(failed.exitStatus).toContain("no room");
    expect(world.guests.get("100")).toBeUndefined();
    expect(world.configs.get(100)).toEqual(before);
    expect(world.images(100)).toEqual(["vm-100-disk-0.raw"]);
    expect(world.content(100, "vm-100-disk-0.raw").equals(data)).toBe(true);
    // An archive that breaks off is noticed, though the guest has run on it.
    playMirror(102);
    const path = join(world.root, "local", "dump", name);
    truncateSync(path, readFileSync(path).length - 4096);
    const cut = await world.restore(102, name, { "live-restore": true });
    expect(cut.state).toBe("failed");
    expect(cut.exitStatus).toContain("it ends too early");
    // QEMU only knows that it could not read.
    world.guests.answers.set("blockdev-mirror", async () => {
      await new Promise((done) => setTimeout(done, 300));
      throw new Refused("Input/output error");
    });
    const unread = await world.restore(102, name, { "live-restore": true });
    expect(unread.exitStatus).toContain("it ends too early");
    expect(world.configs.has(102)).toBe(false);
    expect(world.images(102)).toEqual([]);
  });

  test("of a template restore it as it was", async () => {
    await world.addFilled(100);
    await world.configs.change(100, (config) => ({ ...config, values: { ...config.values, template: "1" } }));
    await world.vzdump({ vmid: "100", storage: "local" });
    const done = await world.restore(103, world.dumps()[0] ?? "", { "live-restore": true });
    expect(done.exitStatus).toBe("OK");
    expect(world.guests.get("103")).toBeUndefined();
    expect(world.images(103)).toEqual(["base-103-disk-0.raw"]);
  });
});
