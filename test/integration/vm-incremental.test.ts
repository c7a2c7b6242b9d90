// Incremental backups on real QEMU: chains of them, what breaks a chain, and restores of every archive of one.
import { createHash, randomBytes } from "node:crypto";
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { apiOf, startGpve, type Api, type Gpve } from "../support/gpve.ts";
import { waitTask } from "../support/tasks.ts";

const hasQemu = existsSync("/usr/bin/qemu-system-x86_64");
if (!hasQemu) console.warn("SKIPPED: no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils");

let gpve: Gpve;
let api: Api;
let node: string;
beforeAll(async () => {
  gpve = await startGpve();
  api = apiOf(gpve.credentials);
  node = ((await api("GET", "/nodes")).data as { node: string }[])[0]?.node ?? "";
});
afterAll(() => gpve.stop());

const run = async (method: string, path: string, params?: Record<string, string | number>) => {
  const answer = await api(method, path, params);
  expect(answer.status, answer.text).toBe(200);
  return { ...(await waitTask(api, answer.data as string)), upid: answer.data as string };
};
const must = async (method: string, path: string, params?: Record<string, string | number>) => {
  const task = await run(method, path, params);
  expect(task.exitstatus, await logOf(task.upid)).toBe("OK");
  return task;
};
const logOf = async (upid: string): Promise<string> =>
  ((await api("GET", `/nodes/${node}/tasks/${upid}/log`, { limit: 500 })).data as { t: string }[])
    .map(({ t }) => t)
    .join("\n");
const image = (vmid: number, name: string): string =>
  join(gpve.data, "storage/local/images", String(vmid), name);
const folder = (): string => join(gpve.data, "storage/local/dump");
const dumps = (vmid: number): string[] =>
  readdirSync(folder())
    .filter((name) => name.startsWith(`vzdump-qemu-${vmid}-`) && /\.(vma|gpvi)\.zst$/.test(name))
    .toSorted();
const rawHash = async (path: string): Promise<string> => {
  const copy = join(gpve.data, `check-${randomBytes(4).toString("hex")}.raw`);
  await exec("qemu-img", ["convert", "-U", "-O", "raw", path, copy]);
  const hash = createHash("sha256").update(readFileSync(copy)).digest("hex");
  rmSync(copy);
  return hash;
};
/** Writes as a guest would: through the running QEMU, or into the image while none runs. */
const write = async (vmid: number, key: string, file: string, ...commands: string[]): Promise<void> => {
  const status = (await api("GET", `/nodes/${node}/qemu/${vmid}/status/current`)).data as { status: string };
  for (const command of [...commands, "flush"]) {
    if (status.status === "running") {
      const said = await api("POST", `/nodes/${node}/qemu/${vmid}/monitor`, {
        command: `qemu-io -d ${key} "${command}"`,
      });
      expect(said.text).not.toMatch(/rror|ailed|onflict/);
    } else {
      const format = file.endsWith(".raw") ? "raw" : "qcow2";
      await exec("qemu-io", ["-f", format, "-c", command, image(vmid, file)]);
    }
  }
};
const backup = async (vmid: number): Promise<{ name: string; log: string }> => {
  const before = dumps(vmid);
  const task = await must("POST", `/nodes/${node}/vzdump`, { vmid, storage: "local", compress: "zstd" });
  const name = dumps(vmid).find((each) => !before.includes(each)) ?? "";
  expect(name).not.toBe("");
  return { name, log: await logOf(task.upid) };
};
let next = 700;
const restored = async (name: string): Promise<{ vmid: number; config: Record<string, string> }> => {
  const vmid = next++;
  await must("POST", `/nodes/${node}/qemu`, { vmid, archive: `local:backup/${name}` });
  return {
    vmid,
    config: (await api("GET", `/nodes/${node}/qemu/${vmid}/config`)).data as Record<string, string>,
  };
};
const fileOf = (config: Record<string, string>, key: string): string =>
  /local:\d+\/([^,]+)/.exec(config[key] ?? "")?.[1] ?? "";

describe.skipIf(!hasQemu)("incremental backups", () => {
  test("of a running VM hold what changed, and each archive restores to the bytes of its time", async () => {
    await must("POST", `/nodes/${node}/qemu`, {
      vmid: 300,
      name: "chained",
      memory: 32,
      tags: "incremental-backup",
      scsi0: "local:0.06,format=qcow2",
    });
    const disk = "vm-300-disk-0.qcow2";
    await write(300, "scsi0", disk, "write -P 0x11 0 20M");
    await must("POST", `/nodes/${node}/qemu/300/status/start`);
    const made: { name: string; log: string; hash: string }[] = [];
    const save = async (): Promise<void> => {
      const archive = await backup(300);
      made.push({ ...archive, hash: await rawHash(image(300, disk)) });
    };
    await save();
    await write(300, "scsi0", disk, "write -P 0x22 1M 64k", "write -z 5M 2M");
    await save();
    await write(300, "scsi0", disk, "write -P 0x33 1M 128k", "write -P 0x44 30M 1M");
    await save();
    expect(made.map(({ name }) => name.replace(/^.*\d\./, ""))).toEqual(["vma.zst", "gpvi.zst", "gpvi.zst"]);
    expect(made[0]?.log).toContain("full backup: there is no earlier backup");
    expect(made[1]?.log).toContain(`incremental backup on top of '${made[0]?.name}'`);
    expect(new Set(made.map(({ hash }) => hash)).size).toBe(3);
    const rows = (await api("GET", `/nodes/${node}/storage/local/content`, { content: "backup", vmid: 300 }))
      .data as { volid: string; format: string; parent?: string }[];
    expect(rows.map(({ format, parent }) => [format, parent])).toEqual([
      ["vma.zst", undefined],
      ["gpvi", `backup/${made[0]?.name}`],
      ["gpvi", `backup/${made[1]?.name}`],
    ]);
    for (const { name, hash } of made) {
      const { vmid, config } = await restored(name);
      expect(config["name"]).toBe("chained");
      expect(await rawHash(image(vmid, fileOf(config, "scsi0"))), name).toBe(hash);
    }
  });
});
