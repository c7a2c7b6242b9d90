// Backup jobs that really run: the calendar allows seconds, so a job can be due in a few of them. On the same node:
// pictures of statistics, what QEMU can do, and CPU models of the cluster.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { type Api, apiOf, firstNode, type Gpve, startGpve } from "../support/gpve.ts";
import { waitTask } from "../support/tasks.ts";

const hasQemu = existsSync("/usr/bin/qemu-img");
if (!hasQemu) console.warn("SKIPPED: no qemu-img; get it with: apt-get install qemu-system-x86 qemu-utils");

interface TaskRow {
  readonly upid: string;
  readonly type: string;
  readonly user: string;
  readonly id: string;
  readonly status?: string;
}

let gpve: Gpve;
let api: Api;
let node: string;
beforeAll(async () => {
  gpve = await startGpve();
  api = apiOf(gpve.credentials);
  node = await firstNode(api);
});
afterAll(() => gpve.stop());

const ok = async (method: string, path: string, params?: Record<string, string | number>) => {
  const answer = await api(method, path, params);
  expect(answer.status, answer.text).toBe(200);
  return answer.data;
};
const backupTasks = async (): Promise<TaskRow[]> =>
  ((await ok("GET", "/cluster/tasks")) as TaskRow[]).filter(({ type }) => type === "vzdump");
const archives = (vmid: number): string[] =>
  readdirSync(join(gpve.data, "storage/local/dump")).filter(
    (name) => name.startsWith(`vzdump-qemu-${vmid}-`) && name.endsWith(".vma.zst"),
  );

describe.skipIf(!hasQemu)("backup jobs", () => {
  test("a due job saves its guests, once at a time, and not again after a crash", async () => {
    for (const vmid of [210, 211]) {
      const upid = await ok("POST", `/nodes/${node}/qemu`, { vmid, memory: 64, scsi0: "local:0.01" });
      await waitTask(api, upid as string);
    }
    await ok("POST", "/cluster/backup", {
      id: "often",
      schedule: "*:*:0/5",
      vmid: "210",
      storage: "local",
      compress: "zstd",
      comment: "every five seconds",
    });
    expect(await ok("GET", "/cluster/backup/often")).toMatchObject({
      type: "vzdump",
      schedule: "*:*:0/5",
      enabled: 1,
      "next-run": expect.any(Number) as number,
    });
    expect(await ok("GET", "/cluster/backup-info/not-backed-up")).toMatchObject([{ vmid: 211 }]);
    await vi.waitFor(async () => expect(await backupTasks()).not.toEqual([]), {
      timeout: 150_000,
      interval: 500,
    });
    const [first] = (await backupTasks()).slice(-1);
    expect(first?.user).toBe("root@pam");
    const done = await waitTask(api, first?.upid ?? "");
    expect(done).toMatchObject({ exitstatus: "OK", type: "vzdump", id: "210" });
    expect(archives(210).length).toBeGreaterThan(0);
    expect(archives(211)).toEqual([]);

    await ok("PUT", "/cluster/backup/often", { schedule: "2099-01-01" });
    for (const { upid } of await backupTasks()) await waitTask(api, upid);
    await ok("DELETE", "/cluster/backup/often");

    // Due once a minute. Whoever forgot a run takes its minute, which is not over, for one that was missed.
    const runsOf = async (vmid: string) => (await backupTasks()).filter(({ id }) => id === vmid).length;
    const before = await runsOf("210");
    const second = (new Date().getSeconds() + 5) % 60;
    const dueAt = Math.floor(Date.now() / 1000) * 1000 + 5_000;
    await ok("POST", "/cluster/backup", {
      id: "minutely",
      schedule: `*:*:${second}`,
      vmid: "210",
      storage: "local",
      compress: "zstd",
    });
    await vi.waitFor(async () => expect(await runsOf("210")).toBe(before + 1), {
      timeout: 150_000,
      interval: 200,
    });
    for (const { upid } of await backupTasks()) await waitTask(api, upid);
    await gpve.kill();
    gpve = await gpve.restart();
    api = apiOf(gpve.credentials);
    // Jobs are looked at again once the server that was killed has lost its claim on them: another job shows when.
    await ok("POST", "/cluster/backup", { id: "proof", schedule: "*:*:0/2", vmid: "211", storage: "local" });
    await vi.waitFor(async () => expect(await runsOf("211")).toBeGreaterThan(0), {
      timeout: 120_000,
      interval: 200,
    });
    const runs = (await runsOf("210")) - before;
    expect(runs).toBeLessThanOrEqual(1 + Math.floor((Date.now() - dueAt) / 60_000));
    expect(runs).toBeGreaterThan(0);
    for (const id of ["minutely", "proof"]) await ok("DELETE", `/cluster/backup/${id}`);
    // A job that is gone ends no backup: who comes next must find the guests unlocked.
    for (const { upid } of await backupTasks()) await waitTask(api, upid);
    expect(await ok("GET", "/cluster/backup")).toEqual([]);
  });

  test("statistics are drawn into real pictures, and QEMU itself says what it can do", async () => {
    const pictures = [
      [`/nodes/${node}/rrd`, "cpu,iowait"],
      [`/nodes/${node}/qemu/210/rrd`, "mem"],
      [`/nodes/${node}/storage/local/rrd`, "total,used"],
    ] as const;
    const asPicture = apiOf(gpve.credentials, undefined, "/api2/png");
    for (const [path, ds] of pictures) {
      const { image } = (await ok("GET", path, { ds, timeframe: "hour" })) as { image: string };
      const png = Buffer.from(image, "latin1");
      expect(png.subarray(1, 4).toString(), path).toBe("PNG");
      expect([png.readUInt32BE(16), png.readUInt32BE(20)]).toEqual([800, 200]);
      const answer = await asPicture("GET", path, { ds, timeframe: "hour" });
      expect([answer.status, answer.headers["content-type"]]).toEqual([200, "image/png"]);
    }
    const machines = (await vi.waitFor(
      async () => {
        const rows = await ok("GET", `/nodes/${node}/capabilities/qemu/machines`);
        expect(rows).not.toEqual([]);
        return rows;
      },
      { timeout: 150_000, interval: 500 },
    )) as { id: string }[];
    expect(machines.map(({ id }) => id)).toContain("pc-q35-7.2");
    const flags = (await ok("GET", "/cluster/qemu/cpu-flags", { accel: "tcg" })) as {
      name: string;
      "supported-on": string[];
    }[];
    expect(flags.find(({ name }) => name === "aes")?.["supported-on"]).toEqual([node]);
  });

  test.skipIf(!existsSync("/usr/bin/qemu-system-x86_64"))(
    "a VM runs with a CPU model of the cluster",
    async () => {
      await ok("POST", "/cluster/qemu/custom-cpu-models", {
        cputype: "small",
        "reported-model": "qemu64",
        flags: "+aes;-sse4a",
      });
      const change = { cpu: "custom-small", memory: 32, vga: "none", delete: "scsi0" };
      await ok("PUT", `/nodes/${node}/qemu/211/config`, change);
      await waitTask(api, (await ok("POST", `/nodes/${node}/qemu/211/status/start`)) as string);
      const { pid, ...current } = (await ok("GET", `/nodes/${node}/qemu/211/status/current`)) as {
        pid: number;
      };
      expect(current).toMatchObject({
        balloon: 32 * 1024 * 1024,
        ballooninfo: { actual: 32 * 1024 * 1024, max_mem: 32 * 1024 * 1024 },
      });
      expect(await ok("GET", `/nodes/${node}/vzdump/defaults`)).toMatchObject({
        storage: "local",
        dumpdir: join(gpve.data, "storage/local/dump"),
        mode: "snapshot",
        "prune-backups": "keep-all=1",
      });
      const argv = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
      expect(argv[argv.indexOf("-cpu") + 1]).toMatch(/^qemu64,\+aes,.*-sse4a/);
      await waitTask(api, (await ok("POST", `/nodes/${node}/qemu/211/status/stop`)) as string);
      await ok("DELETE", "/cluster/qemu/custom-cpu-models/small");
      const refused = await waitTask(
        api,
        (await ok("POST", `/nodes/${node}/qemu/211/status/start`)) as string,
      );
      expect(refused.exitstatus).toContain("Custom cputype 'small' not found");
    },
  );
});
