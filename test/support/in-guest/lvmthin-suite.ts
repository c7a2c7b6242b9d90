// Runs inside a Debian guest, as root: a thin pool on the disk that the command line names, and the suite that every storage
// plugin passes, with image tools confined as the product confines them.
import { constants, mkdtempSync, rmSync, statSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ToolCgroups } from "@gpve/agent/infrastructure/cgroup/tool-cgroups.ts";
import { prepareFile } from "@gpve/agent/infrastructure/guest-process/guest-view.ts";
import { confinedTools } from "@gpve/agent/infrastructure/image-tools/confined-tools.ts";
import { storagePlugin } from "@gpve/agent/infrastructure/storage/storage-plugins.ts";
import { storageConformance } from "@gpve/agent/testing/storage-conformance.ts";
import { requireHostFile } from "@gpve/domain/storage/block-node.ts";
import { newStorageDefinition } from "@gpve/domain/storage/definition.ts";
import type { StoragePlugin } from "@gpve/domain/storage/plugin.ts";
import { exec } from "@gpve/kit/exec.ts";
import { plainPlugins } from "@gpve/agent/testing/plain-plugins.ts";

const [, , disk = "", supervisor = ""] = process.argv;
const GROUP = "gpvetest";
const POOL = "thin";
const MIB = 1024 * 1024;
const GUEST = 0x4000_1234;

const folder = mkdtempSync(join(tmpdir(), "gpve-lvmthin-"));
const tools = confinedTools({
  exec,
  root: join(folder, "root"),
  cgroups: new ToolCgroups("lvmthin"),
  supervisor: async () => supervisor,
});
const pluginOf = (options: Record<string, string> = {}): StoragePlugin =>
  storagePlugin(newStorageDefinition("thin", "lvmthin", { vgname: GROUP, thinpool: POOL, ...options }), {
    ...plainPlugins(),
    tools,
  });

async function withDevice<T>(
  plugin: StoragePlugin,
  volname: string,
  flags: number,
  use: (file: Awaited<ReturnType<typeof open>>) => Promise<T>,
): Promise<T> {
  const { node } = await plugin.attach(volname);
  const file = await open(requireHostFile(node, "a test"), flags);
  try {
    return await use(file);
  } finally {
    await file.close();
    await plugin.detach(volname);
  }
}

const write = (plugin: StoragePlugin, volname: string, offset: number, bytes: Uint8Array): Promise<void> =>
  withDevice(plugin, volname, constants.O_RDWR, async (file) => {
    await file.write(bytes, 0, bytes.length, offset);
    await file.sync();
  });
const read = (plugin: StoragePlugin, volname: string, offset: number, length: number): Promise<Uint8Array> =>
  withDevice(plugin, volname, constants.O_RDONLY, async (file) => {
    const { buffer } = await file.read(new Uint8Array(length), 0, length, offset);
    return buffer;
  });

async function makePool(): Promise<void> {
  await exec("pvcreate", ["-ff", "-y", disk]);
  await exec("vgcreate", ["--physicalextentsize", "1m", GROUP, disk]);
  await exec("lvcreate", ["-y", "--type", "thin-pool", "-L", "600m", "-n", POOL, GROUP]);
}

storageConformance("lvmthin", async () => {
  await makePool();
  const plugin = pluginOf();
  return {
    plugin,
    formats: ["raw"],
    write: (volname, offset, bytes) => write(plugin, volname, offset, bytes),
    read: (volname, offset, length) => read(plugin, volname, offset, length),
    close: async () => undefined,
  };
});

describe("thin logical volumes", () => {
  const plugin = pluginOf();

  it("are devices under names of PVE, which a guest's own user opens and keeps", async () => {
    const volname = await plugin.alloc({ vmid: 900, format: "raw", size: 4 * MIB });
    expect(volname).toBe("vm-900-disk-0");
    expect(plugin.path(volname)).toBe(`/dev/${GROUP}/vm-900-disk-0`);
    const { node, format } = await plugin.attach(volname);
    expect([node.driver, format]).toEqual(["host_device", "raw"]);
    const path = requireHostFile(node, "a test");
    await prepareFile({ path, access: "rw", owned: true, ofStorage: true }, GUEST);
    // Whoever closes a device that was written to wakes udev, which has its own idea of owners.
    await write(plugin, volname, 0, new TextEncoder().encode("mine"));
    await plugin.resize(volname, 8 * MIB);
    await exec("udevadm", ["settle"]);
    expect(statSync(path).uid).toBe(GUEST);
    expect(statSync(plugin.path(volname)).uid).toBe(0);
    await tools("qemu-img", ["info", "-f", "raw", path], [{ path, access: "ro" }]);
    await plugin.free(volname);
  });

  it("keep snapshots as volumes that are looked at one by one", async () => {
    const volname = await plugin.alloc({ vmid: 901, format: "raw", size: 4 * MIB });
    await write(plugin, volname, 0, new TextEncoder().encode("then"));
    await plugin.snapshot(volname, "s1");
    await write(plugin, volname, 0, new TextEncoder().encode("now!"));
    expect(plugin.liveWork(volname)).toBe("storage");
    const source = await plugin.attach(volname, { snapshot: "s1" });
    const copy = await plugin.importFrom(source, { vmid: 902, format: "raw" });
    await plugin.detach(volname, { snapshot: "s1" });
    expect(new TextDecoder().decode(await read(plugin, copy, 0, 4))).toBe("then");
    const { stdout } = await exec("lvs", ["--noheadings", "-o", "lv_attr", `${GROUP}/snap_${volname}_s1`]);
    expect(stdout.trim().charAt(4)).toBe("-");
    expect(
      (await plugin.list()).map((row) => row.volname).filter((name) => name.startsWith("snap_")),
    ).toEqual([]);
    await plugin.free(volname);
    const left = (await exec("lvs", ["--noheadings", "-o", "lv_name", GROUP])).stdout;
    expect(left.includes(`snap_${volname}`)).toBe(false);
    await plugin.free(copy);
  });

  it("are refused where the group, the pool, the format or the content is not there", async () => {
    await expect(pluginOf({ vgname: "nothere" }).activate()).rejects.toThrow(
      "no such volume group 'nothere'",
    );
    await expect(pluginOf({ thinpool: "nothere" }).activate()).rejects.toThrow(
      `no such thin pool '${GROUP}/nothere'`,
    );
    await expect(plugin.alloc({ vmid: 903, format: "qcow2", size: MIB })).rejects.toThrow(
      "unsupported format 'qcow2'",
    );
    expect(() => plugin.backupFolder()).toThrow("can't use storage 'thin' for backups - wrong content type");
    rmSync(folder, { recursive: true, force: true });
  });
});
