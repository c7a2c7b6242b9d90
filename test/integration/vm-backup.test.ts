// Backups of real VMs, stopped and running, restored byte for byte.
import { createHash, randomBytes } from "node:crypto";
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { type Api, apiOf, firstNode, type Gpve, startGpve } from "../support/gpve.ts";
import { runTask, type TaskCall, taskLog } from "../support/tasks.ts";

const hasQemu = existsSync("/usr/bin/qemu-system-x86_64");
if (!hasQemu) console.warn("SKIPPED: no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils");

let gpve: Gpve;
let api: Api;
let node: string;
beforeAll(async () => {
  gpve = await startGpve();
  api = apiOf(gpve.credentials);
  node = await firstNode(api);
});
afterAll(() => gpve.stop());

const run = (...call: TaskCall) => runTask(api, ...call);
const image = (vmid: number, name: string): string =>
  join(gpve.data, "storage/local/images", String(vmid), name);
const rawHash = async (path: string): Promise<string> => {
  const copy = join(gpve.data, `check-${randomBytes(4).toString("hex")}.raw`);
  await exec("qemu-img", ["convert", "-U", "-O", "raw", path, copy]);
  return createHash("sha256").update(readFileSync(copy)).digest("hex");
};
const dumps = (): string[] =>
  readdirSync(join(gpve.data, "storage/local/dump"))
    .filter((name) => /\.vma(\.(zst|gz|lzo))?$/.test(name))
    .toSorted();

describe.skipIf(!hasQemu)("backup and restore", () => {
  const hashes = new Map<string, string>();

  test("a stopped VM with raw and qcow2 disks is saved in every compression", async () => {
    await run("POST", `/nodes/${node}/qemu`, {
      vmid: 200,
      name: "saved",
      memory: 64,
      scsi0: "local:0.02",
      virtio0: "local:0.03,format=qcow2",
      net0: "virtio",
    });
    const raw = openSync(image(200, "vm-200-disk-0.raw"), "r+");
    writeSync(raw, randomBytes(3_000_000), 0, 3_000_000, 1_000_001);
    closeSync(raw);
    await exec("qemu-io", [
      "-f",
      "qcow2",
      "-c",
      "write -P 0xab 5M 2M",
      "-c",
      "write -P 0x17 20M 100k",
      image(200, "vm-200-disk-1.qcow2"),
    ]);
    hashes.set("scsi0", await rawHash(image(200, "vm-200-disk-0.raw")));
    hashes.set("virtio0", await rawHash(image(200, "vm-200-disk-1.qcow2")));
    for (const compress of ["0", "zstd", "gzip"]) {
      const task = await run("POST", `/nodes/${node}/vzdump`, {
        vmid: 200,
        storage: "local",
        mode: "snapshot",
        compress,
        "notes-template": "{{guestname}} on {{node}}",
      });
      expect(task).toMatchObject({ exitstatus: "OK", type: "vzdump", id: "200" });
      // Archives are named by the second.
      await new Promise((done) => setTimeout(done, 1_100));
    }
    expect(dumps()).toHaveLength(3);
    const rows = (await api("GET", `/nodes/${node}/storage/local/content`, { content: "backup" })).data as {
      volid: string;
      notes?: string;
      vmid: number;
    }[];
    expect(rows.filter((row) => row.vmid === 200)).toHaveLength(3);
    expect(rows[0]?.notes).toBe(`saved on ${node}`);
    const config = await api("GET", `/nodes/${node}/vzdump/extractconfig`, { volume: rows[0]?.volid ?? "" });
    expect(config.data).toContain("#qmdump#map:scsi0:drive-scsi0:local:raw:");
  });

  test("each archive restores to equal disks under a new id, with an identity of its own when asked", async () => {
    for (const [index, name] of dumps().entries()) {
      const vmid = 210 + index;
      const task = await run("POST", `/nodes/${node}/qemu`, {
        vmid,
        archive: `local:backup/${name}`,
        unique: 1,
      });
      expect(task).toMatchObject({ exitstatus: "OK", type: "qmrestore" });
      const config = (await api("GET", `/nodes/${node}/qemu/${vmid}/config`)).data as Record<string, string>;
      expect(config["name"]).toBe("saved");
      for (const key of ["scsi0", "virtio0"]) {
        const file = /local:\d+\/([^,]+)/.exec(config[key] ?? "")?.[1] ?? "";
        expect(await rawHash(image(vmid, file)), `${key} of ${name}`).toBe(hashes.get(key));
      }
      const original = (await api("GET", `/nodes/${node}/qemu/200/config`)).data as Record<string, string>;
      expect(config["smbios1"]).not.toBe(original["smbios1"]);
      expect(config["net0"]).not.toBe(original["net0"]);
    }
  });

  test("a running VM is saved as it was at one moment, while it goes on", async () => {
    expect(await run("POST", `/nodes/${node}/qemu/200/status/start`)).toMatchObject({ exitstatus: "OK" });
    const before = dumps();
    // Its space is reserved in advance: blocks must be found below it all the same.
    const fast = mkdtempSync(join(tmpdir(), "gpve-fast-"));
    onTestFinished(async () => {
      // A storage that is defined has its folders made again.
      await api("DELETE", "/storage/fast");
      rmSync(fast, { recursive: true, force: true });
    });
    await api("POST", "/storage", {
      storage: "fast",
      type: "dir",
      path: fast,
      content: "images",
      preallocation: "falloc",
    });
    const task = await run("POST", `/nodes/${node}/vzdump`, {
      vmid: 200,
      storage: "local",
      mode: "snapshot",
      compress: "zstd",
      fleecing: "enabled=1,storage=fast",
    });
    expect(readdirSync(join(fast, "images"))).toEqual([]);
    const lines = await taskLog(api, task.upid);
    for (const number of [0, 1]) {
      expect(lines).toContain(`attaching fleecing image fast:200/vm-200-fleece-${number}.qcow2 to QEMU`);
      expect(lines).toContain(`removing (old) fleecing image 'fast:200/vm-200-fleece-${number}.qcow2'`);
    }
    const log = (await api("GET", `/nodes/${node}/tasks`, { typefilter: "vzdump", limit: 1 })).text;
    expect(task.exitstatus, log).toBe("OK");
    expect((await api("GET", `/nodes/${node}/qemu/200/status/current`)).data).toMatchObject({
      qmpstatus: "running",
    });
    const made = dumps().find((name) => !before.includes(name)) ?? "";
    await run("POST", `/nodes/${node}/qemu`, { vmid: 220, archive: `local:backup/${made}` });
    expect(await rawHash(image(220, "vm-220-disk-1.qcow2"))).toBe(hashes.get("virtio0"));
    expect(
      (
        await run("POST", `/nodes/${node}/vzdump`, {
          vmid: 200,
          storage: "local",
          mode: "suspend",
          compress: "0",
        })
      ).exitstatus,
    ).toBe("OK");
    await run("POST", `/nodes/${node}/qemu/200/status/stop`);
  });

  test("a cut archive restores nothing and leaves nothing", async () => {
    const name = dumps().find((each) => each.endsWith(".vma")) ?? "";
    truncateSync(join(gpve.data, "storage/local/dump", name), 1_000_000);
    const task = await run("POST", `/nodes/${node}/qemu`, { vmid: 230, archive: `local:backup/${name}` });
    expect(task.exitstatus).toMatch(/the backup archive is damaged: it ends too early/);
    expect((await api("GET", `/nodes/${node}/qemu/230/config`)).status).toBe(500);
    expect(existsSync(image(230, "")) ? readdirSync(image(230, "")) : []).toEqual([]);
    expect(
      await api("POST", `/nodes/${node}/qemu`, { vmid: 200, archive: `local:backup/${name}` }),
    ).toMatchObject({ status: 500 });
  });
});
