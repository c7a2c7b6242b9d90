import { readFileSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { testSaga } from "@gpve/kit/testing/saga-harness.ts";
import { BackupWorld, hasBackupTools } from "../../../testing/backup-world.ts";
import { restoreVmOperation } from "./restore-vm.ts";

const MINUTES = 5 * 60_000;

interface Saved {
  readonly world: BackupWorld;
  readonly archive: string;
  readonly saved: Buffer;
}

/** A VM that was saved, and has changed since. */
async function saved(): Promise<Saved> {
  const world = await BackupWorld.open();
  const data = await world.addFilled(100);
  await world.vzdump({ vmid: "100", storage: "local" });
  const file = world.storages.find("local").plugin.path("100/vm-100-disk-0.raw");
  writeFileSync(file, Buffer.alloc(data.length, 5));
  await world.configs.change(100, (config) => ({ ...config, values: { ...config.values, name: "later" } }));
  return { world, archive: `local:backup/${world.dumps()[0] ?? ""}`, saved: data };
}

const diskOf = (world: BackupWorld, vmid: number): Buffer => {
  const volname = /local:([^,]+)/.exec(world.values(vmid)["scsi0"] ?? "")?.[1] ?? "";
  return readFileSync(world.storages.find("local").plugin.path(volname));
};

const args = { unique: false, start: false, storages: ["local"] };

describe.skipIf(!hasBackupTools)("a restore (skipped without qemu-utils and lzop)", () => {
  it("makes a VM completely or not at all", { timeout: MINUTES }, () =>
    testSaga<Saved>({
      prepare: saved,
      define: (engine, { world, archive }) => {
        engine.register(restoreVmOperation(world.host, world.tools));
        return { type: "qmrestore", args: { ...args, vmid: 101, archive }, resources: ["vm/101"] };
      },
      check: ({ world, saved: data }, outcome) => {
        if (outcome === "done") expect(world.configs.has(101)).toBe(true);
        if (!world.configs.has(101)) {
          expect(world.images(101)).toEqual([]);
          return;
        }
        expect(world.values(101)).not.toHaveProperty("lock");
        expect(world.images(101)).toHaveLength(1);
        expect(diskOf(world, 101).equals(data)).toBe(true);
      },
      cleanup: ({ world }) => world.close(),
    }).then(() => undefined),
  );

  it("replaces a VM completely or leaves it as it was", { timeout: MINUTES }, () =>
    testSaga<Saved>({
      prepare: saved,
      define: (engine, { world, archive }) => {
        engine.register(restoreVmOperation(world.host, world.tools));
        return {
          type: "qmrestore",
          args: { ...args, vmid: 100, archive, force: true },
          resources: ["vm/100"],
        };
      },
      check: ({ world, saved: data }, outcome) => {
        expect(world.values(100)).not.toHaveProperty("lock");
        expect(world.images(100)).toHaveLength(1);
        if (outcome === "done") expect(world.values(100)["name"]).toBe("web");
        const expected = world.values(100)["name"] === "web" ? data : Buffer.alloc(data.length, 5);
        expect(diskOf(world, 100).equals(expected)).toBe(true);
      },
      cleanup: ({ world }) => world.close(),
    }).then(() => undefined),
  );
});
