// Backup jobs that really run: the calendar allows seconds, so a job can be due in a few of them.
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { apiOf, startGpve, type Api, type Gpve } from "../support/gpve.ts";
import { waitTask } from "../support/tasks.ts";

const hasQemu = existsSync("/usr/bin/qemu-img");
if (!hasQemu) console.warn("SKIPPED: no qemu-img; get it with: apt-get install qemu-system-x86 qemu-utils");

interface TaskRow {
  readonly upid: string;
  readonly type: string;
  readonly user: string;
  readonly status?: string;
}

let gpve: Gpve;
let api: Api;
let node: string;
beforeAll(async () => {
  gpve = await startGpve();
  api = apiOf(gpve.credentials);
  node = ((await api("GET", "/nodes")).data as { node: string }[])[0]?.node ?? "";
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
      timeout: 90_000,
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
    const before = (await backupTasks()).length;
    await gpve.kill();
    gpve = await gpve.restart();
    api = apiOf(gpve.credentials);
    expect(await ok("GET", "/cluster/backup/often")).toMatchObject({ "next-run": 4_070_908_800 });
    await new Promise((later) => setTimeout(later, 3_000));
    expect(await backupTasks()).toHaveLength(before);
    await ok("DELETE", "/cluster/backup/often");
    expect(await ok("GET", "/cluster/backup")).toEqual([]);
  }, 300_000);
});
