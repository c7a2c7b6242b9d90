// Incremental backups on real QEMU: chains of them, what breaks a chain, and restores of every archive of one.
import { createHash, randomBytes } from "node:crypto";
import {
  mkdirSync,
  writeFileSync,
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { type Api, apiOf, firstNode, type Gpve, startGpve } from "../support/gpve.ts";
import { waitTask } from "../support/tasks.ts";

const hasQemu = existsSync("/usr/bin/qemu-system-x86_64");
if (!hasQemu) console.warn("SKIPPED: no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils");

const mke2fs = ["/usr/sbin/mke2fs", "/sbin/mke2fs"].find((path) => existsSync(path));
if (mke2fs === undefined) console.warn("SKIPPED: no mke2fs; get it with: apt-get install e2fsprogs");

let gpve: Gpve;
let api: Api;
let node: string;
beforeAll(async () => {
  gpve = await startGpve();
  api = apiOf(gpve.credentials);
  node = await firstNode(api);
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
const backup = async (
  vmid: number,
  { incremental = true, plain = false } = {},
): Promise<{ name: string; log: string }> => {
  const before = dumps(vmid);
  const upid = plain
    ? ((await api("POST", `/nodes/${node}/vzdump`, { vmid, storage: "local", compress: "zstd" }))
        .data as string)
    : await backupByV1(vmid, incremental);
  const task = await waitTask(api, upid);
  const log = await logOf(upid);
  expect(task.exitstatus, log).toBe("OK");
  const name = dumps(vmid).find((each) => !before.includes(each)) ?? "";
  expect(name).not.toBe("");
  return { name, log };
};
const backupByV1 = async (vmid: number, incremental: boolean): Promise<string> => {
  const v1 = apiOf(gpve.credentials, undefined, "/api/v1");
  const json = { "Content-Type": "application/json" };
  const answer = await v1(
    "POST",
    `/nodes/${node}/vms/${vmid}/backup`,
    {},
    json,
    JSON.stringify({ incremental }),
  );
  expect(answer.status, answer.text).toBe(202);
  return (JSON.parse(answer.text) as { task: string }).task;
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
      const archive = await backup(300, { plain: true });
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

  test("of a stopped VM go on with the bitmaps in its disks; new, grown and removed disks are part of it", async () => {
    await must("POST", `/nodes/${node}/qemu`, {
      vmid: 310,
      memory: 32,
      scsi0: "local:0.03,format=qcow2",
      scsi1: "local:0.02,format=qcow2",
    });
    const [first, second, third] = [0, 1, 2].map((n) => `vm-310-disk-${n}.qcow2`) as [string, string, string];
    await write(310, "scsi0", first, "write -P 0x51 0 3M");
    await write(310, "scsi1", second, "write -P 0x52 0 3M");
    const full = await backup(310, { incremental: false });
    expect(full.name).toMatch(/\.vma\.zst$/);
    // Grown while it is stopped, and written beyond its old end.
    await api("PUT", `/nodes/${node}/qemu/310/resize`, { disk: "scsi0", size: "+10M" }).then((answer) =>
      waitTask(api, answer.data as string),
    );
    await write(310, "scsi0", first, "write -P 0x61 1M 64k", "write -P 0x62 35M 1M");
    const grown = await backup(310);
    expect(grown.name).toMatch(/\.gpvi\.zst$/);
    const hashes = new Map([["grown", await rawHash(image(310, first))]]);
    // Started, one disk away, another one new, stopped: the bitmap survives.
    await must("POST", `/nodes/${node}/qemu/310/status/start`);
    await must("POST", `/nodes/${node}/qemu/310/config`, { delete: "scsi1" });
    await must("POST", `/nodes/${node}/qemu/310/config`, { scsi2: "local:0.01,format=qcow2" });
    await write(310, "scsi0", first, "write -P 0x71 2M 64k");
    await write(310, "scsi2", third, "write -P 0x72 0 1M");
    await must("POST", `/nodes/${node}/qemu/310/status/stop`);
    await write(310, "scsi0", first, "write -P 0x73 3M 64k");
    const last = await backup(310);
    expect(last.log).toContain(`incremental backup on top of '${grown.name}'`);
    hashes.set("last", await rawHash(image(310, first)));
    hashes.set("new", await rawHash(image(310, third)));
    const one = await restored(grown.name);
    expect(await rawHash(image(one.vmid, fileOf(one.config, "scsi0")))).toBe(hashes.get("grown"));
    expect(one.config["scsi1"]).toContain("vm-");
    const two = await restored(last.name);
    expect(await rawHash(image(two.vmid, fileOf(two.config, "scsi0")))).toBe(hashes.get("last"));
    expect(await rawHash(image(two.vmid, fileOf(two.config, "scsi2")))).toBe(hashes.get("new"));
    expect(two.config["scsi1"]).toBeUndefined();
    const config = await api("GET", `/nodes/${node}/vzdump/extractconfig`, {
      volume: `local:backup/${last.name}`,
    });
    expect(config.data).toContain("#qmdump#map:scsi2:drive-scsi2:local:qcow2:");
  });

  test("are whole once after a disk with an I/O thread moved under its guest", async () => {
    await must("POST", `/nodes/${node}/qemu`, {
      vmid: 360,
      memory: 32,
      scsihw: "virtio-scsi-single",
      scsi0: "local:0.03,format=qcow2,iothread=1",
      start: 1,
    });
    const moved = "vm-360-disk-1.raw";
    await write(360, "scsi0", "vm-360-disk-0.qcow2", "write -P 0x11 0 2M");
    await backup(360);
    const to = { disk: "scsi0", storage: "local", format: "raw", delete: 1 };
    await must("POST", `/nodes/${node}/qemu/360/move_disk`, to);
    await write(360, "scsi0", moved, "write -P 0x22 1M 64k");
    const whole = await backup(360);
    expect(whole.log).toContain("full backup: ");
    const hash = await rawHash(image(360, moved));
    await write(360, "scsi0", moved, "write -P 0x33 1M 64k");
    const small = await backup(360);
    expect(small.log).toContain(`incremental backup on top of '${whole.name}'`);
    for (const [archive, wanted] of [
      [whole.name, hash],
      [small.name, await rawHash(image(360, moved))],
    ] as const) {
      const { vmid, config } = await restored(archive);
      expect(await rawHash(image(vmid, fileOf(config, "scsi0"))), archive).toBe(wanted);
    }
    await must("POST", `/nodes/${node}/qemu/360/status/stop`);
  });

  test("become full after a rollback, a crash, or a new start of a raw disk, and say why", async () => {
    await must("POST", `/nodes/${node}/qemu`, { vmid: 320, memory: 32, scsi0: "local:0.02,format=qcow2" });
    const disk = "vm-320-disk-0.qcow2";
    await must("POST", `/nodes/${node}/qemu/320/status/start`);
    await backup(320);
    // Snapshots, with RAM too, do not disturb the bitmap.
    await must("POST", `/nodes/${node}/qemu/320/snapshot`, { snapname: "one", vmstate: 1 });
    await write(320, "scsi0", disk, "write -P 0x81 0 64k");
    const small = await backup(320);
    expect(small.name).toMatch(/gpvi/);
    await must("POST", `/nodes/${node}/qemu/320/snapshot/one/rollback`);
    const rolled = await backup(320);
    expect(rolled.name).toMatch(/vma/);
    expect(rolled.log).toContain("full backup: the VM was rolled back to snapshot 'one'");
    const after = await restored(rolled.name);
    expect(await rawHash(image(after.vmid, fileOf(after.config, "scsi0")))).toBe(
      await rawHash(image(320, disk)),
    );
    // A killed QEMU has not stored a bitmap it made itself, and leaves one that it found inconsistent.
    const killed = async (): Promise<void> => {
      const status = (await api("GET", `/nodes/${node}/qemu/320/status/current`)).data as { pid: number };
      process.kill(status.pid, "SIGKILL");
      const state = async (): Promise<string> =>
        ((await api("GET", `/nodes/${node}/qemu/320/status/current`)).data as { status: string }).status;
      await expect.poll(state, { timeout: 150_000 }).toBe("stopped");
      await must("POST", `/nodes/${node}/qemu/320/status/start`);
    };
    await write(320, "scsi0", disk, "write -P 0x82 64k 64k");
    await killed();
    const lost = await backup(320);
    expect(lost.name).toMatch(/vma/);
    expect(lost.log).toContain("full backup: disk 'scsi0' has no dirty bitmap");
    await must("POST", `/nodes/${node}/qemu/320/status/stop`);
    await must("POST", `/nodes/${node}/qemu/320/status/start`);
    await killed();
    const size = await api("PUT", `/nodes/${node}/qemu/320/resize`, { disk: "scsi0", size: "+4M" });
    expect(await waitTask(api, size.data as string)).toMatchObject({ exitstatus: "OK" });
    const crashed = await backup(320);
    expect(crashed.name).toMatch(/vma/);
    expect(crashed.log).toMatch(/full backup: .*inconsistent/);
    expect((await backup(320)).name).toMatch(/gpvi/);
    await must("POST", `/nodes/${node}/qemu/320/status/stop`);

    await must("POST", `/nodes/${node}/qemu`, { vmid: 330, memory: 32, scsi0: "local:0.02,format=raw" });
    await must("POST", `/nodes/${node}/qemu/330/status/start`);
    await backup(330);
    await write(330, "scsi0", "vm-330-disk-0.raw", "write -P 0x91 1M 64k");
    const live = await backup(330);
    expect(live.name).toMatch(/gpvi/);
    const copy = await restored(live.name);
    expect(await rawHash(image(copy.vmid, fileOf(copy.config, "scsi0")))).toBe(
      await rawHash(image(330, "vm-330-disk-0.raw")),
    );
    await must("POST", `/nodes/${node}/qemu/330/status/stop`);
    await must("POST", `/nodes/${node}/qemu/330/status/start`);
    const again = await backup(330);
    expect(again.name).toMatch(/vma/);
    expect(again.log).toContain("full backup: disk 'scsi0' is raw");
    await must("POST", `/nodes/${node}/qemu/330/status/stop`);
  });

  test("go on after a VM was suspended to disk and resumed", async () => {
    await must("POST", `/nodes/${node}/qemu`, { vmid: 350, memory: 32, scsi0: "local:0.02,format=qcow2" });
    const disk = "vm-350-disk-0.qcow2";
    await must("POST", `/nodes/${node}/qemu/350/status/start`);
    await backup(350);
    await write(350, "scsi0", disk, "write -P 0xa1 0 64k");
    await must("POST", `/nodes/${node}/qemu/350/status/suspend`, { todisk: 1 });
    await must("POST", `/nodes/${node}/qemu/350/status/start`);
    await write(350, "scsi0", disk, "write -P 0xa2 1M 64k");
    const after = await backup(350);
    expect(after.name, after.log).toMatch(/gpvi/);
    const copy = await restored(after.name);
    expect(await rawHash(image(copy.vmid, fileOf(copy.config, "scsi0")))).toBe(
      await rawHash(image(350, disk)),
    );
    await must("POST", `/nodes/${node}/qemu/350/status/stop`);
  });

  test("keep what they build on, and restore nothing from a chain that is not whole", async () => {
    const [full = "", middle = "", last = ""] = dumps(300);
    const refused = await run("DELETE", `/nodes/${node}/storage/local/content/local:backup/${full}`);
    expect(refused.exitstatus).toContain(`the incremental backup '${middle}' builds on it`);
    await must("DELETE", `/nodes/${node}/storage/local/prunebackups`, {
      "prune-backups": "keep-last=1",
      vmid: 300,
    });
    expect(dumps(300)).toEqual([full, middle, last]);
    const fails = async (text: RegExp): Promise<void> => {
      const task = await run("POST", `/nodes/${node}/qemu`, { vmid: 790, archive: `local:backup/${last}` });
      expect(task.exitstatus).toMatch(text);
      expect((await api("GET", `/nodes/${node}/qemu/790/config`)).status).toBe(500);
      expect(existsSync(image(790, ""))).toBe(false);
    };
    const path = (name: string): string => join(folder(), name);
    renameSync(path(middle), path("aside"));
    await fails(/builds on '.*': volume '.*' does not exist/);
    copyFileSync(path("aside"), path(middle));
    truncateSync(path(middle), 200);
    await fails(/damaged/);
    // Another archive under the parent's name.
    copyFileSync(path(last), path(middle));
    await fails(/builds on another archive/);
    renameSync(path("aside"), path(middle));
    expect((await restored(last)).config["name"]).toBe("chained");
    await must("DELETE", `/nodes/${node}/storage/local/content/local:backup/${last}`);
    await must("DELETE", `/nodes/${node}/storage/local/content/local:backup/${middle}`);
    await must("DELETE", `/nodes/${node}/storage/local/content/local:backup/${full}`);
    expect(dumps(300)).toEqual([]);
    // What the bitmaps build on is gone.
    const fresh = await backup(300, { plain: true });
    expect(fresh.name).toMatch(/vma/);
    expect(fresh.log).toContain("cannot be built on");
  });

  test.skipIf(mke2fs === undefined)("can be looked into, file by file", async () => {
    await must("POST", `/nodes/${node}/qemu`, { vmid: 340, memory: 32, scsi0: "local:0.01,format=raw" });
    const files = join(gpve.data, "files");
    mkdirSync(join(files, "etc"), { recursive: true });
    writeFileSync(join(files, "etc", "hostname"), "restored\n");
    await exec(mke2fs ?? "", ["-q", "-F", "-t", "ext4", "-d", files, image(340, "vm-340-disk-0.raw")]);
    const { name } = await backup(340);
    const base = `/nodes/${node}/storage/local/file-restore`;
    const volume = `local:backup/${name}`;
    type Rows = { filepath: string; text: string; type: string; leaf: number }[];
    const rows = async (filepath: string): Promise<Rows> => {
      const answer = await api("GET", `${base}/list`, { volume, filepath });
      expect(answer.status, answer.text).toBe(200);
      return answer.data as Rows;
    };
    const [drive] = await rows("/");
    expect(drive).toMatchObject({ text: "drive-scsi0", type: "v", leaf: 0 });
    const [whole] = await rows(drive?.filepath ?? "");
    const etc = (await rows(whole?.filepath ?? "")).find(({ text }) => text === "etc");
    const [file] = await rows(etc?.filepath ?? "");
    expect(file).toMatchObject({ text: "hostname", type: "f", leaf: 1, size: 9 });
    const got = await api("GET", `${base}/download`, { volume, filepath: file?.filepath ?? "" });
    expect(got.text).toBe("restored\n");
    expect(got.headers["content-type"]).toBe("application/octet-stream");
    const zip = await api("GET", `${base}/download`, { volume, filepath: etc?.filepath ?? "" });
    expect(zip.text.startsWith("PK")).toBe(true);
  });
});
