// A watchdog that nobody feeds, on real QEMU: what the configuration says is what happens.
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createConnection } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bootSector } from "@gpve/agent/testing/boot-sector.ts";
import { type Api, apiOf, firstNode, type Gpve, startGpve } from "../support/gpve.ts";
import { runTask, type TaskCall } from "../support/tasks.ts";

const hasQemu = existsSync("/usr/bin/qemu-system-x86_64");
if (!hasQemu) console.warn("SKIPPED: no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils");

let gpve: Gpve;
let api: Api;
let vms: string;

beforeAll(async () => {
  gpve = await startGpve();
  api = apiOf(gpve.credentials);
  vms = `/nodes/${await firstNode(api)}/qemu`;
  const folder = join(gpve.data, "storage/local/import");
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "watchdog.raw"), bootSector("watchdog"));
});
afterAll(() => gpve.stop());

const run = async (...call: TaskCall) => (await runTask(api, ...call)).exitstatus;
const start = async (vmid: number, action: string): Promise<void> => {
  const made = await run("POST", vms, {
    vmid,
    memory: 32,
    scsi0: "local:0,import-from=local:import/watchdog.raw,format=raw",
    watchdog: `model=i6300esb,action=${action}`,
    serial0: "socket",
    start: 1,
  });
  expect(made).toBe("OK");
};
const current = async (vmid: number) =>
  (await api("GET", `${vms}/${vmid}/status/current`)).data as { status: string; qmpstatus: string };

describe.skipIf(!hasQemu)("a watchdog that nobody feeds", () => {
  test("resets the guest", async () => {
    await start(100, "reset");
    const serial = createConnection(join(gpve.data, "run/guests/100/serial0.sock"));
    let boots = 0;
    for await (const chunk of serial) {
      boots += [...(chunk as Buffer)].filter((byte) => byte === 0x21).length;
      // The first boot may have been before anyone listened.
      if (boots >= 2) break;
    }
    serial.destroy();
    expect(boots).toBeGreaterThanOrEqual(2);
    expect(await current(100)).toMatchObject({ status: "running", qmpstatus: "running" });
    expect(await run("POST", `${vms}/100/status/stop`)).toBe("OK");
  });

  test("holds it, and resume lets it go on", async () => {
    await start(101, "pause");
    await expect
      .poll(async () => (await current(101)).qmpstatus, { timeout: 150_000, interval: 200 })
      .toBe("watchdog");
    expect(await run("POST", `${vms}/101/status/resume`)).toBe("OK");
    expect(await current(101)).toMatchObject({ status: "running", qmpstatus: "running" });
    expect(await run("POST", `${vms}/101/status/stop`)).toBe("OK");
  });

  test("switches it off", async () => {
    await start(102, "poweroff");
    await expect
      .poll(async () => (await current(102)).status, { timeout: 150_000, interval: 200 })
      .toBe("stopped");
  });

  test("does nothing when told so", async () => {
    await start(103, "none");
    const serial = createConnection(join(gpve.data, "run/guests/103/serial0.sock"));
    const ended = new Promise((resolve) => serial.once("close", resolve));
    const waited = new Promise((resolve) => setTimeout(() => resolve("still there"), 4_000));
    expect(await Promise.race([ended, waited])).toBe("still there");
    serial.destroy();
    expect(await current(103)).toMatchObject({ qmpstatus: "running" });
  });
});
