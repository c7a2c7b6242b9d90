// Where a running VM's overwritten blocks go while it is saved.
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { VmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import { BackupWorld, hasBackupTools } from "../../../testing/backup-world.ts";
import { Refused } from "../../../testing/fake-qmp.ts";
import { destroyVmOperation } from "../config/destroy-vm.ts";
import { dropFleecingImages } from "./fleecing-images.ts";

let world: BackupWorld;
beforeEach(async () => {
  world = await BackupWorld.open();
  world.define("fast", { content: "images" });
});
afterEach(() => world.close());

const images = (): string[] => {
  const folder = join(world.root, "fast", "images");
  return existsSync(folder) ? readdirSync(folder, { recursive: true }).map(String).toSorted() : [];
};
const listed = (vmid = 100): unknown => world.host.configs.get(vmid).special["fleecing"];
const fleeced = { vmid: "100", storage: "local", fleecing: "enabled=1,storage=fast" };

async function running(command?: string, answer?: (args: unknown) => unknown): Promise<void> {
  world.playQemu(await world.addFilled(100));
  if (command !== undefined && answer !== undefined) world.guests.answers.set(command, answer);
  await world.run(100);
}

describe.skipIf(!hasBackupTools)("fleecing images (skipped without qemu-utils and lzop)", () => {
  test("lie on the storage named for them while the backup runs, and nowhere afterwards", async () => {
    let during: unknown;
    await running("blockdev-add", (node) => {
      during = { files: images(), config: listed(), node };
      return {};
    });
    expect(await world.vzdump(fleeced)).toMatchObject({ state: "done" });
    expect(during).toMatchObject({
      files: ["100", "100/vm-100-fleece-0.qcow2"],
      config: { "fleecing-images": "fast:100/vm-100-fleece-0.qcow2" },
      node: {
        driver: "qcow2",
        file: { filename: join(world.root, "fast/images/100/vm-100-fleece-0.qcow2") },
        backing: "drive-scsi0",
      },
    });
    expect(images()).toEqual([]);
    expect(listed()).toBeUndefined();
    for (const line of [
      "INFO: drive-scsi0: attaching fleecing image fast:100/vm-100-fleece-0.qcow2 to QEMU",
      "INFO: removing (old) fleecing image 'fast:100/vm-100-fleece-0.qcow2'",
    ])
      expect(world.logged()).toContain(line);
  });

  test("are served by the server that an agent left behind, and it is left again", async () => {
    await running("nbd-server-start", () => {
      throw new Refused("NBD server already running");
    });
    expect(await world.vzdump(fleeced)).toMatchObject({ state: "done" });
    const sent = world.guests.get("100")?.qmp.commands.map(({ name }) => name) ?? [];
    expect(sent).not.toContain("nbd-server-stop");
    world.guests.get("100")?.qmp.answers.set("nbd-server-start", () => {
      throw new Refused("no socket");
    });
    expect(await world.vzdump(fleeced)).toMatchObject({ exitStatus: "job errors" });
    world.guests.get("100")?.qmp.answers.set("nbd-server-start", () => ({}));
    expect(await world.vzdump(fleeced)).toMatchObject({ state: "done" });
    const all = world.guests.get("100")?.qmp.commands.map(({ name }) => name) ?? [];
    expect(all.filter((name) => name === "nbd-server-stop")).toHaveLength(1);
  });

  test("are not made when switched off, and for no VM that is stopped", async () => {
    await running();
    expect(await world.vzdump({ ...fleeced, fleecing: "enabled=0,storage=fast" })).toMatchObject({
      state: "done",
    });
    expect(world.logged().join("\n")).not.toContain("fleecing image");
    await world.addFilled(101);
    expect(await world.vzdump({ ...fleeced, vmid: "101" })).toMatchObject({ state: "done" });
    expect(world.logged().join("\n")).not.toContain("fleecing image");
  });

  test("go when the backup fails, and those of others stay", async () => {
    await running("transaction", () => {
      throw new Refused("no");
    });
    expect(await world.vzdump(fleeced)).toMatchObject({ exitStatus: "job errors" });
    expect(images()).toEqual([]);
    expect(listed()).toBeUndefined();
    // A server that this process did not start is not stopped by it: QEMU might wait for a connection for good.
    const sent = world.guests.get("100")?.qmp.commands.map(({ name }) => name) ?? [];
    expect(sent).toContain("block-export-del");
    expect(sent).not.toContain("nbd-server-stop");
    const own = join(world.root, "fast/images/100/vm-100-fleece-0.qcow2");
    mkdirSync(join(own, ".."), { recursive: true });
    writeFileSync(own, "mine");
    expect(await world.vzdump(fleeced)).toMatchObject({ exitStatus: "job errors" });
    expect(world.logged().join("\n")).toContain(
      `Backup of VM 100 failed - disk image '${own}' already exists`,
    );
    expect(images()).toContain("100/vm-100-fleece-0.qcow2");
    expect(listed()).toBeUndefined();
    expect(await world.vzdump({ ...fleeced, fleecing: "enabled=1,storage=none" })).toMatchObject({
      exitStatus: "job errors",
    });
    expect(world.logged().join("\n")).toContain("storage 'none' does not exist");
    expect(world.values(100)["lock"]).toBeUndefined();
  });

  test("of a backup that was cut off are removed by the next one, or with their VM", async () => {
    await running();
    const left = async (vmid: number): Promise<void> => {
      const plugin = world.storages.find("fast").plugin;
      await plugin.alloc({ vmid, format: "qcow2", name: `vm-${vmid}-fleece-0.qcow2`, size: 1024 });
      await world.host.configs.change(vmid, (config): VmConfig => ({
        ...config,
        special: {
          ...config.special,
          fleecing: { "fleecing-images": `fast:${vmid}/vm-${vmid}-fleece-0.qcow2` },
        },
      }));
    };
    await left(100);
    expect(await world.vzdump({ vmid: "100", storage: "local" })).toMatchObject({ state: "done" });
    expect(images()).toEqual([]);
    expect(listed()).toBeUndefined();
    await world.addFilled(101);
    await left(101);
    world.engine.register(destroyVmOperation(world.host));
    const upid = await world.call("DELETE /nodes/{node}/qemu/{vmid}", { vmid: 101 }, "root");
    expect(await world.engine.wait(upid)).toMatchObject({ state: "done" });
    expect(images()).toEqual([]);
  });

  test("that cannot be removed stay listed", async () => {
    await world.addFilled(100);
    await world.host.configs.change(100, (config) => ({
      ...config,
      special: { fleecing: { "fleecing-images": "fast:100/vm-100-fleece-0.qcow2" } },
    }));
    const { plugin } = world.storages.find("fast");
    plugin.activate = async () => {
      throw new Refused("away");
    };
    const lines: string[] = [];
    const say = (line: string): void => void lines.push(line);
    await dropFleecingImages(world.host, 100, { log: say, warn: say });
    expect(lines.at(-1)).toBe("error removing fleecing image 'fast:100/vm-100-fleece-0.qcow2' - away");
    expect(listed()).toEqual({ "fleecing-images": "fast:100/vm-100-fleece-0.qcow2" });
  });
});
