// Disks of a running and a stopped VM on real QEMU, through the API: clones, growing, moving.
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { type Api, apiOf, firstNode, type Gpve, startGpve } from "../support/gpve.ts";
import { expectClosedToStrangers } from "../support/strangers.ts";
import { runByAgent, untilAgentAnswers } from "../support/guest.ts";
import { uploadImage } from "../support/images.ts";
import { runTask, type TaskCall, taskLog, waitTask } from "../support/tasks.ts";

/** Linux boots under TCG here, maybe beside other tests. */
vi.setConfig({ testTimeout: 600_000 });

const hasQemu = existsSync("/usr/bin/qemu-system-x86_64");
if (!hasQemu) console.warn("SKIPPED: no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils");

const hasFirmware = existsSync("/usr/share/OVMF/OVMF_VARS_4M.fd");
if (!hasFirmware) console.warn("SKIPPED: no firmware; get it with: apt-get install ovmf");

let gpve: Gpve;
let api: Api;
let node: string;

beforeAll(async () => {
  gpve = await startGpve();
  api = apiOf(gpve.credentials);
  node = await firstNode(api);
});
afterAll(() => gpve.stop());

const run = async (...call: TaskCall) => (await runTask(api, ...call)).exitstatus;
const vm = (vmid = 100): string => `/nodes/${node}/qemu/${vmid}`;
const images = (vmid = 100): string => join(gpve.data, "storage/local/images", String(vmid));
const config = async (vmid = 100) => (await api("GET", `${vm(vmid)}/config`)).data as Record<string, string>;
const status = async (vmid = 100) =>
  ((await api("GET", `${vm(vmid)}/status/current`)).data as { qmpstatus: string }).qmpstatus;
const sizeOf = async (path: string): Promise<number> => {
  const { stdout } = await exec("qemu-img", ["info", "-U", "--output=json", path]);
  return (JSON.parse(stdout) as { "virtual-size": number })["virtual-size"];
};

const SECTOR = 512;
/** Sectors that the guest writes in turn, each with the number of the write. */
const TURNS = 2_000;
const sectors = (mebibytes: number): number => mebibytes * 2048;

/** Writes to the disks of these sizes until `/run/stop` is there, beside noise that nobody looks at. */
const writer = (sizes: readonly number[]): string =>
  [
    `for size in ${sizes.map(sectors).join(" ")}; do for b in /sys/block/*; do`,
    '[ $(cat $b/size) = $size ] && disks="$disks /dev/${b##*/}"; done; done; i=0;',
    "while [ ! -e /run/stop ]; do for d in $disks; do",
    `printf %-512d $i | dd of=$d bs=512 seek=$((i%${TURNS})) conv=notrunc oflag=direct;`,
    "dd if=/dev/urandom of=$d bs=64k seek=$((32+i%200)) count=1 conv=notrunc;",
    "done; i=$((i+1)); echo $i > /run/next; mv /run/next /run/written; done; sync; rm /run/stop",
  ].join(" ");

/** Every write that the guest was told is done is on the disk, and none but the last to each place. */
async function expectWritten(vmid: number, key: string, count: number): Promise<void> {
  expect(count).toBeGreaterThan(10);
  const name = /local:\d+\/([^,]+)/.exec((await config(vmid))[key] ?? "")?.[1] ?? "";
  const plain = join(gpve.data, `${key}.raw`);
  await exec("qemu-img", ["convert", "-O", "raw", join(images(vmid), name), plain]);
  const content = readFileSync(plain);
  const wrong: string[] = [];
  for (let turn = 0; turn < Math.min(count, TURNS); turn++) {
    const wanted = String(turn + TURNS * Math.floor((count - 1 - turn) / TURNS));
    const found = content.toString("latin1", turn * SECTOR, (turn + 1) * SECTOR);
    if (found !== wanted.padEnd(SECTOR)) wrong.push(`${turn}: ${found.trimEnd()} instead of ${wanted}`);
  }
  expect(wrong, key).toEqual([]);
}

const limited = async (vmid: number, key: string): Promise<string> =>
  `${(await config(vmid))[key]?.replace(/,mbps_wr=\d+/, "") ?? ""},mbps_wr=80`;

describe.skipIf(!hasQemu)("disks of a VM", () => {
  test("are grown, moved and copied while it runs", async () => {
    const created = { vmid: 100, name: "web", memory: 32, scsi0: "local:0.1,format=qcow2", start: 1 };
    expect(await run("POST", `/nodes/${node}/qemu`, created)).toBe("OK");
    expect(await run("PUT", `${vm()}/resize`, { disk: "scsi0", size: "+100M" })).toBe("OK");
    expect(await sizeOf(join(images(), "vm-100-disk-0.qcow2"))).toBeGreaterThan(200_000_000);
    expect(
      await run("POST", `${vm()}/move_disk`, { disk: "scsi0", storage: "local", format: "raw", delete: 1 }),
    ).toBe("OK");
    expect((await config())["scsi0"]).toMatch(/^local:100\/vm-100-disk-1\.raw,size=/);
    expect(readdirSync(images())).toEqual(["vm-100-disk-1.raw"]);
    expect(await status()).toBe("running");
    expect(await run("POST", `${vm()}/clone`, { newid: 101, format: "qcow2" })).toBe("OK");
    expect(await config(101)).toMatchObject({ name: "Copy-of-VM-web" });
    expect(await run("POST", `${vm(101)}/status/start`)).toBe("OK");
    expect(await status(101)).toBe("running");
    expect(await run("POST", `${vm()}/status/stop`)).toBe("OK");
    expect(await run("POST", `${vm()}/status/start`)).toBe("OK");
    await run("POST", `${vm()}/status/stop`);
    await run("POST", `${vm(101)}/status/stop`);
  });

  test("with an I/O thread move again and again under a guest that writes to them", async () => {
    const guest = vm(120);
    const disks = { scsi1: 40, virtio1: 48 };
    const made = await run("POST", `/nodes/${node}/qemu`, {
      vmid: 120,
      memory: 256,
      agent: "1",
      serial0: "socket",
      scsihw: "virtio-scsi-single",
      boot: "order=scsi0",
      scsi0: `local:0,import-from=${await uploadImage(gpve, "tiny.qcow2")},format=qcow2,iothread=1`,
      scsi1: `local:${disks.scsi1 / 1024},format=qcow2,iothread=1`,
      virtio1: `local:${disks.virtio1 / 1024},format=raw,iothread=1,mbps_wr=50`,
      start: 1,
    });
    expect(made).toBe("OK");
    await untilAgentAnswers(api, guest);
    const inGuest = (script: string): Promise<string> => runByAgent(api, guest, "/bin/sh", "-c", script);
    await inGuest(`setsid sh -c '${writer(Object.values(disks))}' >/dev/null 2>&1 &`);
    const written = async (): Promise<number> => Number(await inGuest("cat /run/written || echo 0"));
    const { pid } = (await api("GET", `${guest}/status/current`)).data as { pid: number };
    const move = (disk: string, format: string) =>
      run("POST", `${guest}/move_disk`, { disk, storage: "local", format, delete: 1 });
    for (const [disk, format] of [
      ["scsi1", "raw"],
      ["virtio1", "qcow2"],
      ["scsi0", "raw"],
      ["scsi1", "qcow2"],
      ["virtio1", "raw"],
      ["scsi1", "raw"],
      ["virtio1", "qcow2"],
    ] as const) {
      const before = await written();
      expect(await move(disk, format), `${disk} to ${format}`).toBe("OK");
      await vi.waitFor(async () => expect(await written()).toBeGreaterThan(before), { timeout: 150_000 });
    }
    // One that is cancelled leaves the disk where it was.
    for (const disk of Object.keys(disks)) {
      const before = [await written(), (await config(120))[disk]] as const;
      const slow = { disk, storage: "local", format: disk === "scsi1" ? "qcow2" : "raw", bwlimit: 500 };
      const upid = (await api("POST", `${guest}/move_disk`, slow)).data as string;
      await vi.waitFor(async () => expect((await taskLog(api, upid)).length).toBeGreaterThan(0), {
        timeout: 150_000,
      });
      await setTimeout(1_000);
      await api("DELETE", `/nodes/${node}/tasks/${upid}`);
      expect((await waitTask(api, upid)).exitstatus).not.toBe("OK");
      expect((await config(120))[disk]).toBe(before[1]);
      expect(readdirSync(images(120))).toHaveLength(3);
      await vi.waitFor(async () => expect(await written()).toBeGreaterThan(before[0]), { timeout: 150_000 });
    }
    // What else is done to a disk finds it where it is now.
    expect((await api("PUT", `${guest}/config`, { virtio1: await limited(120, "virtio1") })).status).toBe(
      200,
    );
    expect(await run("PUT", `${guest}/resize`, { disk: "scsi1", size: "+8M" })).toBe("OK");
    await vi.waitFor(
      async () => expect(await inGuest("cat /sys/block/sd*/size")).toContain(`${sectors(disks.scsi1 + 8)}\n`),
      { timeout: 150_000 },
    );
    expect(await run("POST", `${guest}/clone`, { newid: 121, full: 1 })).toBe("OK");
    expect(await run("DELETE", vm(121))).toBe("OK");
    for (const key of ["scsi0", "scsi1"]) expect(await move(key, "qcow2")).toBe("OK");
    expect(await run("POST", `${guest}/snapshot`, { snapname: "moved" })).toBe("OK");
    expect(await run("DELETE", `${guest}/snapshot/moved`)).toBe("OK");
    const count = Number(
      await inGuest("touch /run/stop; while [ -e /run/stop ]; do sleep 1; done; cat /run/written"),
    );
    // Plugged again under the same name, and moved from there.
    const text = (await config(120))["scsi1"] ?? "";
    expect((await api("PUT", `${guest}/config`, { delete: "scsi1" })).status).toBe(200);
    expect((await api("PUT", `${guest}/config`, { scsi1: text })).status).toBe(200);
    expect((await api("GET", `${guest}/pending`)).text).not.toContain("pending");
    expect(await move("scsi1", "raw")).toBe("OK");
    expect((await api("GET", `${guest}/status/current`)).data).toMatchObject({ qmpstatus: "running", pid });
    expect(await run("POST", `${guest}/status/stop`)).toBe("OK");
    for (const key of Object.keys(disks)) await expectWritten(120, key, count);
    expect(readdirSync(images(120))).toHaveLength(3);
    expect(await run("DELETE", guest)).toBe("OK");
  });

  test.skipIf(!hasFirmware)("of every kind move, there and back, and start where they are", async () => {
    const disks = {
      efidisk0: "local:1,efitype=4m,format=qcow2",
      scsi0: "local:0.01,format=qcow2,ro=1",
      sata0: "local:0.01,format=qcow2,discard=on",
      ide0: "local:0.01,format=qcow2,cache=writeback",
      virtio0: "local:0.01,format=qcow2,iothread=1,iops=100",
    };
    const values = { vmid: 130, memory: 64, bios: "ovmf", ...disks, start: 1 };
    expect(await run("POST", `/nodes/${node}/qemu`, values)).toBe("OK");
    for (const format of ["raw", "qcow2"])
      for (const disk of Object.keys(disks)) {
        const moved = await run("POST", `${vm(130)}/move_disk`, {
          disk,
          storage: "local",
          format,
          delete: 1,
        });
        expect(moved, `${disk} to ${format}`).toBe("OK");
      }
    // What the guest can reach is what it has.
    const { pid } = (await api("GET", `${vm(130)}/status/current`)).data as { pid: number };
    const files = readdirSync(images(130));
    expect(files).toHaveLength(Object.keys(disks).length);
    if (process.getuid?.() === 0) expect(readdirSync(`/proc/${pid}/root${images(130)}`)).toEqual(files);
    expect(await status(130)).toBe("running");
    expect(await run("POST", `${vm(130)}/status/stop`)).toBe("OK");
    expect(await run("POST", `${vm(130)}/status/start`)).toBe("OK");
    expect(await run("POST", `${vm(130)}/status/stop`)).toBe("OK");
    expect(await run("DELETE", vm(130))).toBe("OK");
  });

  test("and the VM itself get into the pool they are created for, and out of it", async () => {
    const members = async (): Promise<unknown[]> => {
      const { members: rows } = (await api("GET", "/pools/prod")).data as { members: { vmid: number }[] };
      return rows.map(({ vmid }) => vmid);
    };
    await api("POST", "/pools", { poolid: "prod" });
    expect(await run("POST", `/nodes/${node}/qemu`, { vmid: 110, pool: "prod" })).toBe("OK");
    expect(await run("POST", `${vm(110)}/clone`, { newid: 111, pool: "prod" })).toBe("OK");
    expect(await members()).toEqual([110, 111]);
    for (const vmid of [110, 111]) expect(await run("DELETE", vm(vmid))).toBe("OK");
    expect(await members()).toEqual([]);
  });

  test("are shared by linked clones, which start", async () => {
    expect(await run("POST", `${vm(101)}/template`)).toBe("OK");
    expect(await run("POST", `${vm(101)}/clone`, { newid: 102, name: "linked" })).toBe("OK");
    expect((await config(102))["scsi0"]).toContain("base-101-disk-0.qcow2/102/vm-102-disk-0.qcow2");
    const base = join(images(101), "base-101-disk-0.qcow2");
    expect(statSync(base).mode & 0o777).toBe(0o440);
    // As an earlier version left it.
    chmodSync(base, 0o444);
    const disc = join(gpve.data, "storage/local/template/iso/a.iso");
    mkdirSync(dirname(disc), { recursive: true });
    writeFileSync(disc, Buffer.alloc(65_536), { mode: 0o644 });
    expect(await run("POST", `${vm(102)}/config`, { ide2: "local:iso/a.iso,media=cdrom" })).toBe("OK");
    expect(await run("POST", `${vm(102)}/status/start`)).toBe("OK");
    expect(await status(102)).toBe("running");
    expect(await run("POST", `/nodes/${node}/vzdump`, { vmid: 102, storage: "local" })).toBe("OK");
    await run("POST", `${vm(102)}/status/stop`);
    const dumps = join(gpve.data, "storage/local/dump");
    const backups = readdirSync(dumps).filter((name) => /\.vma/.test(name));
    expect(backups.length).toBeGreaterThan(0);
    if (process.getuid?.() === 0)
      for (const path of [base, disc, ...backups.map((name) => join(dumps, name))])
        await expectClosedToStrangers(path);
    for (const vmid of [102, 101, 100]) expect(await run("DELETE", vm(vmid))).toBe("OK");
    expect(existsSync(images(101))).toBe(false);
  });
});
