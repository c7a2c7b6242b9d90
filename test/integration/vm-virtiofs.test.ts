// A directory of the host for a real QEMU: virtiofsd runs confined, QEMU talks to it, and it ends with the guest.
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Api, apiOf, firstNode, type Gpve, startGpve } from "../support/gpve.ts";
import { runByAgent, untilAgentAnswers } from "../support/guest.ts";
import { uploadImage } from "../support/images.ts";
import { runTask, type TaskCall } from "../support/tasks.ts";

const missing =
  process.getuid?.() !== 0
    ? "root"
    : existsSync("/usr/lib/qemu/virtiofsd")
      ? undefined
      : "virtiofsd; get it with: apt-get install qemu-system-common";
if (missing !== undefined) console.warn(`SKIPPED directories for guests: needs ${missing}`);

let gpve: Gpve;
let api: Api;
let vms: string;
let node: string;
let share: string;

beforeAll(async () => {
  gpve = await startGpve();
  api = apiOf(gpve.credentials);
  node = await firstNode(api);
  vms = `/nodes/${node}/qemu`;
  share = mkdtempSync(join(tmpdir(), "gpve-share-"));
  mkdirSync(join(share, "inside"));
});
afterAll(async () => {
  await gpve.stop();
  rmSync(share, { recursive: true, force: true });
});

const run = async (...call: TaskCall) => (await runTask(api, ...call)).exitstatus;
/** Processes of this gpve's file server, by what they serve. */
const servers = (): number[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const line = readFileSync(`/proc/${pid}/cmdline`, "utf8");
        return line.startsWith("virtiofsd") && line.includes(`source=${share}`);
      } catch {
        return false; // gone meanwhile
      }
    })
    .map(Number);

describe.skipIf(missing !== undefined)("a directory of the host", () => {
  test("is given to a guest by a process that sees nothing else, and ends with it", async () => {
    const map = `node=${node},path=${share}`;
    expect((await api("POST", "/cluster/mapping/dir", { id: "share", map })).status).toBe(200);
    const made = await run("POST", vms, { vmid: 100, memory: 64, virtiofs0: "share", start: 1 });
    expect(made).toBe("OK");
    expect((await api("GET", `${vms}/100/status/current`)).data).toMatchObject({ status: "running" });
    const tree = String((await api("POST", `${vms}/100/monitor`, { command: "info qtree" })).data);
    expect(tree).toContain("dev: vhost-user-fs-pci");
    expect(tree).toContain('tag = "share"');
    // One waits for the other, which has made the directory its whole world.
    const pids = servers();
    expect(pids.length).toBeGreaterThanOrEqual(1);
    const roots = pids.map((pid) => readdirSync(`/proc/${pid}/root`));
    expect(roots).toContainEqual(["inside"]);
    expect(await run("POST", `${vms}/100/status/stop`)).toBe("OK");
    await expect.poll(servers, { timeout: 150_000 }).toEqual([]);
  });

  test("is read and written by the guest", async () => {
    const image = await uploadImage(gpve, "tiny.qcow2");
    writeFileSync(join(share, "from-host"), "hello guest\n");
    const disk = `local:0,import-from=${image},format=qcow2`;
    const vm = `${vms}/101`;
    const config = { memory: 256, agent: "1", serial0: "socket", virtio0: disk, virtiofs0: "share" };
    expect(await run("POST", vms, { vmid: 101, ...config, start: 1 })).toBe("OK");
    await untilAgentAnswers(api, vm);
    await runByAgent(api, vm, "/bin/modprobe", "virtiofs");
    await runByAgent(api, vm, "/bin/mount", "-t", "virtiofs", "share", "/mnt");
    expect(await runByAgent(api, vm, "/bin/cat", "/mnt/from-host")).toBe("hello guest\n");
    await runByAgent(api, vm, "/bin/sh", "-c", "echo hello host > /mnt/inside/from-guest");
    expect(readFileSync(join(share, "inside/from-guest"), "utf8")).toBe("hello host\n");
    // Both see what the other does while it is mounted.
    writeFileSync(join(share, "later"), "still here\n");
    expect(await runByAgent(api, vm, "/bin/cat", "/mnt/later")).toBe("still here\n");
    await runByAgent(api, vm, "/bin/rm", "/mnt/later");
    expect(existsSync(join(share, "later"))).toBe(false);
    await runByAgent(api, vm, "/bin/umount", "/mnt");
    expect(await run("POST", `${vm}/status/stop`)).toBe("OK");
    expect(await run("DELETE", vm)).toBe("OK");
    await expect.poll(servers, { timeout: 150_000 }).toEqual([]);
    // Its directory is not its disk.
    expect(readdirSync(share).toSorted()).toEqual(["from-host", "inside"]);
  });

  test("that is gone is told before anything starts", async () => {
    await api("PUT", `${vms}/100/config`, { virtiofs0: "nothing" });
    expect(await run("POST", `${vms}/100/status/start`)).toBe("Directory mapping not found for 'nothing'");
    expect(servers()).toEqual([]);
    expect(await run("DELETE", `${vms}/100`)).toBe("OK");
  });
});
