// What a restart finds of a backup that was cut off: the guest gets back to what it was, from wherever it is.
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { BackupWorld } from "../../../testing/backup-world.ts";
import { vmBackup } from "./backup-vm.ts";
import { backupOperation } from "../../guest/backup/backup-operation.ts";
import type { HeldVm } from "./held-guest.ts";

let world: BackupWorld;
let lines: string[];
beforeEach(async () => {
  world = await BackupWorld.open();
  lines = [];
  await world.addFilled(100);
  await world.configs.change(100, (config) => ({
    ...config,
    values: { ...config.values, lock: "backup", agent: "1" },
  }));
  world.playQemu(Buffer.alloc(0));
});
afterEach(() => world.close());

const undo = async (more: Partial<HeldVm>, state?: { held?: HeldVm }): Promise<void> => {
  const leftover = join(world.root, "x.vma.dat");
  const scratch = join(world.root, "fleece-100-scsi0.qcow2");
  for (const path of [leftover, scratch]) writeFileSync(path, "half");
  const held: HeldVm = {
    vmid: 100,
    leftovers: [leftover],
    fleeced: [{ key: "scsi0", scratch }],
    wasRunning: true,
    isStopped: false,
    isFrozen: false,
    ...more,
  };
  const definition = backupOperation(
    { ...world.host, backupOf: () => vmBackup(world.host, world.tools) },
    world.tools,
    (_vmid, work) => work(),
  );
  const ctx = {
    state: state ?? { held },
    signal: new AbortController().signal,
    log: (line: string) => void lines.push(line),
    warn: (line: string) => void lines.push(line),
  };
  await definition.steps?.[0]?.undo?.(ctx as never);
  if (state === undefined) for (const path of [leftover, scratch]) expect(existsSync(path), path).toBe(false);
};

test("a paused one is resumed, its file systems thaw, and QEMU forgets the backup", async () => {
  await world.run(100);
  await world.guests.get("100")?.qmp.execute("stop");
  await undo({ isFrozen: true });
  const guest = world.guests.get("100");
  expect(guest?.status).toBe("running");
  expect(world.agentCommands).toEqual(["guest-fsfreeze-thaw"]);
  expect(guest?.qmp.commands.map(({ name }) => name)).toEqual(
    expect.arrayContaining(["block-export-del", "block-job-cancel", "blockdev-del", "cont"]),
  );
  expect(world.values(100)["lock"]).toBeUndefined();
});

test("one that was shut down for it is started, one that switched itself off is not", async () => {
  await undo({ isStopped: true });
  expect(world.guests.get("100")?.status).toBe("running");
  await world.guests.get("100")?.kill();
  await undo({});
  expect(world.guests.get("100")).toBeUndefined();
  expect(lines).toContain("INFO: restarting vm");
});

test("one that cannot be started any more is unlocked all the same", async () => {
  world.guests.failure = new Error("no memory");
  await expect(undo({ isStopped: true })).rejects.toThrow("no memory");
  expect(world.values(100)["lock"]).toBeUndefined();
});

test("another lock, a paused guest and one that is gone are left alone", async () => {
  await world.configs.change(100, (config) => ({ ...config, values: { ...config.values, lock: "clone" } }));
  await world.run(100);
  await world.guests.get("100")?.qmp.execute("stop");
  await undo({ wasRunning: false });
  expect(world.guests.get("100")?.status).toBe("paused");
  expect(world.values(100)["lock"]).toBe("clone");
  await undo({}, {});
  await world.guests.get("100")?.kill();
  await world.configs.remove(100);
  await undo({ wasRunning: false });
});
