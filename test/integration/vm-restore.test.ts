// A real Linux guest saved in every mode and brought back: frozen, stopped, replaced, out of space, cancelled.
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { type Api, apiOf, firstNode, type Gpve, startGpve } from "../support/gpve.ts";
import { tinyImage } from "../support/images.ts";
import { taskLog, waitTask } from "../support/tasks.ts";

/** Linux boots under TCG here, maybe beside other tests. */
vi.setConfig({ testTimeout: 300_000 });

const hasQemu = existsSync("/usr/bin/qemu-system-x86_64");
if (!hasQemu) console.warn("SKIPPED: no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils");

let gpve: Gpve;
let api: Api;
let node: string;
const mounts: string[] = [];

const ask = async (method: string, path: string, params?: Record<string, string | number>) => {
  const answer = await api(method, `/nodes/${node}${path}`, params);
  expect(answer.status, answer.text).toBe(200);
  return answer.data as unknown;
};
const run = async (method: string, path: string, params?: Record<string, string | number>) => {
  const upid = (await ask(method, path, params)) as string;
  return { ...(await waitTask(api, upid)), log: await taskLog(api, upid) };
};
const dump = (vmid: number, more: Record<string, string | number> = {}) =>
  run("POST", "/vzdump", { vmid, storage: "local", compress: "zstd", ...more });
const dumps = (): string[] =>
  readdirSync(join(gpve.data, "storage/local/dump"))
    .filter((name) => name.endsWith(".vma.zst"))
    .toSorted();
const status = async (vmid: number) =>
  (await ask("GET", `/qemu/${vmid}/status/current`)) as { qmpstatus: string; pid?: number; lock?: string };
const images = (vmid: number): string[] => {
  const folder = join(gpve.data, "storage/local/images", String(vmid));
  return existsSync(folder) ? readdirSync(folder).toSorted() : [];
};
const image = (vmid: number): string =>
  join(gpve.data, "storage/local/images", String(vmid), images(vmid)[0] ?? "");
/** The guest is up when its agent answers. */
const untilUp = (vmid: number): Promise<unknown> =>
  vi.waitFor(
    async () => {
      const { status: code, text } = await api("POST", `/nodes/${node}/qemu/${vmid}/agent/ping`);
      expect(code, text).toBe(200);
    },
    { timeout: 120_000, interval: 500 },
  );
/** Runs a program in the guest. */
const inGuest = async (vmid: number, ...command: string[]): Promise<string> => {
  const body = new URLSearchParams(command.map((word): [string, string] => ["command", word])).toString();
  const answer = await api("POST", `/nodes/${node}/qemu/${vmid}/agent/exec`, {}, {}, body);
  expect(answer.status, answer.text).toBe(200);
  const { pid } = answer.data as { pid: number };
  return vi.waitFor(
    async () => {
      const ended = (await ask("GET", `/qemu/${vmid}/agent/exec-status`, { pid })) as {
        readonly exited: number;
        readonly exitcode?: number;
        readonly "out-data"?: string;
      };
      expect(Number(ended.exited)).toBe(1);
      expect(ended.exitcode, JSON.stringify(ended)).toBe(0);
      return ended["out-data"] ?? "";
    },
    { timeout: 150_000 },
  );
};
const stop = (vmid: number) => run("POST", `/qemu/${vmid}/status/stop`);

beforeAll(async () => {
  if (!hasQemu) return;
  gpve = await startGpve();
  api = apiOf(gpve.credentials);
  node = await firstNode(api);
  mkdirSync(join(gpve.data, "storage/local/import"), { recursive: true });
  copyFileSync(await tinyImage(), join(gpve.data, "storage/local/import/tiny.qcow2"));
  const made = await run("POST", "/qemu", {
    vmid: 300,
    name: "tiny",
    memory: 256,
    boot: "order=virtio0",
    agent: "1",
    serial0: "socket",
    virtio0: "local:0,import-from=local:import/tiny.qcow2,format=qcow2,iothread=1",
    scsi1: "local:0.01,format=raw,backup=0",
    net0: "virtio",
    start: 1,
  });
  expect(made.exitstatus, made.log).toBe("OK");
  await untilUp(300);
});
afterAll(async () => {
  if (!hasQemu) return;
  for (const path of mounts) {
    await exec("umount", ["-l", path]);
    rmdirSync(path);
  }
  // Guests outlive the agent: they are ended first.
  for (const { vmid } of (await ask("GET", "/qemu")) as { vmid: number }[]) await stop(vmid);
  await gpve.stop();
});

describe.skipIf(!hasQemu)("a Linux guest", () => {
  test("is frozen for the moment of its backup, and goes on", async () => {
    const done = await dump(300, { mode: "snapshot" });
    expect(done.exitstatus, done.log).toBe("OK");
    const lines = done.log.split("\n");
    const at = (text: string): number => lines.findIndex((line) => line.includes(text));
    expect(at("INFO: starting new backup job: vzdump 300")).toBe(0);
    expect(at("issuing guest-agent 'fs-freeze' command")).toBeGreaterThan(0);
    expect(at("issuing guest-agent 'fs-thaw' command")).toBeGreaterThan(at("'fs-freeze'"));
    expect(at("INFO: exclude disk 'scsi1'")).toBeGreaterThan(0);
    expect(at("INFO: Backup job finished successfully")).toBeGreaterThan(at("Finished Backup of VM 300"));
    const frozen = (await ask("POST", "/qemu/300/agent/fsfreeze-status")) as { result: string };
    expect(frozen.result).toBe("thawed");
    expect(readdirSync(join(gpve.data, "storage/local/dump")).some((name) => name.endsWith(".log"))).toBe(
      true,
    );
  });

  test("is shut down for mode stop, runs again at once, and its disk is that of the shutdown", async () => {
    await inGuest(300, "/bin/sh", "-c", "echo before-the-stop > /data/marker && sync");
    const { pid } = await status(300);
    const done = await dump(300, { mode: "stop" });
    expect(done.exitstatus, done.log).toBe("OK");
    expect(done.log).toContain("INFO: stopping virtual guest");
    expect(done.log).toMatch(/INFO: resuming VM again after \d+ seconds/);
    const after = await status(300);
    expect(after.qmpstatus).toBe("running");
    expect(after.pid).not.toBe(pid);
    expect(after.lock).toBeUndefined();
    await untilUp(300);
  });

  test("is replaced by what its archive holds, only when it is not running, and boots", async () => {
    const name = dumps().at(-1) ?? "";
    const params = { vmid: 300, archive: `local:backup/${name}`, force: 1 };
    expect((await run("POST", "/qemu", params)).exitstatus).toBe("unable to restore VM 300 - vm is running");
    await inGuest(300, "/bin/sh", "-c", "echo gone > /data/marker && sync");
    await stop(300);
    const refused = await api("POST", `/nodes/${node}/qemu`, { ...params, force: 0 });
    expect(refused.text).toContain(`unable to restore VM 300 - VM 300 already exists on node '${node}'`);
    const before = images(300);
    const done = await run("POST", "/qemu", { ...params, start: 1, description: "restored" });
    expect(done.exitstatus, done.log).toBe("OK");
    // The disk that was not saved is kept as an unused one, the saved one is replaced.
    expect(images(300)).toHaveLength(before.length);
    const config = (await ask("GET", "/qemu/300/config")) as Record<string, string>;
    expect(config["unused0"]).toContain("local:300/");
    expect(config["description"]).toContain("restored");
    await untilUp(300);
    expect(await inGuest(300, "/bin/cat", "/data/marker")).toContain("before-the-stop");
  });

  test("runs at once when it is restored live, and has every byte in the end", async () => {
    const name = dumps().at(-1) ?? "";
    await stop(300);
    const done = await run("POST", "/qemu", {
      vmid: 301,
      archive: `local:backup/${name}`,
      unique: 1,
      "live-restore": 1,
    });
    expect(done.exitstatus, done.log).toBe("OK");
    expect(await status(301)).toMatchObject({ qmpstatus: "running" });
    expect((await status(301)).lock).toBeUndefined();
    expect(images(301)).toHaveLength(1);
    await untilUp(301);
    expect(await inGuest(301, "/bin/cat", "/data/marker")).toContain("before-the-stop");
    await stop(301);
    // The guest has written to its disk; what nobody wrote to is as it was saved.
    const plain = await run("POST", "/qemu", { vmid: 302, archive: `local:backup/${name}` });
    expect(plain.exitstatus, plain.log).toBe("OK");
    expect((await exec("qemu-img", ["check", image(301)])).stdout).toContain("No errors");
    expect((await run("POST", "/qemu/300/status/start")).exitstatus).toBe("OK");
  });

  test("is as before when its backup is cancelled or finds no space", async () => {
    const upid = (await ask("POST", "/vzdump", {
      vmid: 300,
      storage: "local",
      bwlimit: 1,
      mode: "suspend",
    })) as string;
    await vi.waitFor(async () => expect((await status(300)).lock).toBe("backup"), { timeout: 150_000 });
    await ask("DELETE", `/tasks/${upid}`);
    expect((await waitTask(api, upid)).exitstatus).not.toBe("OK");
    const folder = join(gpve.data, "storage/local/dump");
    expect(readdirSync(folder).filter((name) => name.includes(".dat"))).toEqual([]);
    expect(await status(300)).toMatchObject({ qmpstatus: "running" });
    expect((await status(300)).lock).toBeUndefined();

    const small = mkdtempSync(join(tmpdir(), "gpve-small-"));
    await exec("mount", ["-t", "tmpfs", "-o", "size=3m", "tmpfs", small]);
    mounts.push(small);
    const made = await api("POST", "/storage", {
      storage: "small",
      type: "dir",
      path: small,
      content: "backup",
    });
    expect(made.status, made.text).toBe(200);
    const full = await dump(300, { storage: "small", compress: 0 });
    expect(full.exitstatus).toBe("job errors");
    expect(full.log).toMatch(/ERROR: Backup of VM 300 failed - .*no space left on device/i);
    expect(readdirSync(join(small, "dump")).filter((name) => !name.endsWith(".log"))).toEqual([]);
    expect(await status(300)).toMatchObject({ qmpstatus: "running" });
  });

  test("may switch itself off while it is read, and its backup is whole", async () => {
    await untilUp(300);
    const upid = (await ask("POST", "/vzdump", { vmid: 300, storage: "local", bwlimit: 4000 })) as string;
    await vi.waitFor(async () => expect(await taskLog(api, upid)).toContain("resuming VM again"), {
      timeout: 150_000,
    });
    await ask("POST", "/qemu/300/agent/shutdown");
    expect((await waitTask(api, upid, 120_000)).exitstatus, await taskLog(api, upid)).toBe("OK");
    await vi.waitFor(async () => expect(await status(300)).toMatchObject({ qmpstatus: "stopped" }), {
      timeout: 150_000,
    });
    expect((await status(300)).lock).toBeUndefined();
  });

  test("is saved with the state of its firmware and its TPM", async (context) => {
    if (!existsSync("/usr/bin/swtpm") || !existsSync("/usr/share/OVMF")) {
      console.warn("SKIPPED: no swtpm or OVMF; get them with: apt-get install swtpm ovmf");
      context.skip();
    }
    const made = await run("POST", "/qemu", {
      vmid: 310,
      memory: 64,
      bios: "ovmf",
      efidisk0: "local:1,efitype=4m",
      tpmstate0: "local:1,version=v2.0",
      start: 1,
    });
    expect(made.exitstatus, made.log).toBe("OK");
    const done = await dump(310);
    expect(done.exitstatus, done.log).toBe("OK");
    const name = dumps().find((each) => each.includes("-310-")) ?? "";
    const restored = await run("POST", "/qemu", { vmid: 311, archive: `local:backup/${name}`, start: 1 });
    expect(restored.exitstatus, restored.log).toBe("OK");
    expect(await status(311)).toMatchObject({ qmpstatus: "running" });
  });
});
