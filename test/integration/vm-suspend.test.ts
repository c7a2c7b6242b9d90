// Suspending a real guest to disk and resuming it: a counter in the guest shows that it went on and was not booted.
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { createConnection } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { counterSector } from "@gpve/agent/testing/boot-sector.ts";
import { type Api, apiOf, firstNode, type Gpve, startGpve } from "../support/gpve.ts";
import { runTask, type TaskCall } from "../support/tasks.ts";

const hasQemu = existsSync("/usr/bin/qemu-system-x86_64");
if (!hasQemu) console.warn("SKIPPED: no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils");

let gpve: Gpve;
let api: Api;
let vm: string;

beforeAll(async () => {
  gpve = await startGpve();
  api = apiOf(gpve.credentials);
  const node = await firstNode(api);
  vm = `/nodes/${node}/qemu/100`;
  const folder = join(gpve.data, "storage/local/import");
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "counter.raw"), counterSector());
});
afterAll(() => gpve.stop());

const run = async (...call: TaskCall) => (await runTask(api, ...call)).exitstatus;
const current = async () =>
  (await api("GET", `${vm}/status/current`)).data as { status: string; qmpstatus: string; lock?: string };
const images = (): string[] => readdirSync(join(gpve.data, "storage/local/images/100")).toSorted();
/** The next value of the guest's counter that is wanted. */
const counterReaches = async (isWanted: (count: number) => boolean): Promise<number> => {
  const serial = createConnection(join(gpve.data, "run/guests/100/serial0.sock"));
  try {
    for await (const chunk of serial) {
      const found = [...(chunk as Buffer)].find(isWanted);
      if (found !== undefined) return found;
    }
    throw new Error("the guest's serial port was closed");
  } finally {
    serial.destroy();
  }
};

describe.skipIf(!hasQemu)("a VM suspended to disk", () => {
  test("ends and keeps its RAM; the next start goes on with it", async () => {
    const made = await run("POST", vm.replace(/\/100$/, ""), {
      vmid: 100,
      memory: 64,
      scsi0: "local:0,import-from=local:import/counter.raw,format=qcow2",
      serial0: "socket",
      start: 1,
    });
    expect(made).toBe("OK");
    await counterReaches((count) => count >= 60);
    expect(await run("POST", `${vm}/status/suspend`, { todisk: 1, statestorage: "local" })).toBe("OK");
    expect(await current()).toMatchObject({ status: "stopped", qmpstatus: "stopped", lock: "suspended" });
    expect(images()).toEqual([
      "vm-100-disk-0.qcow2",
      expect.stringMatching(/^vm-100-state-suspend-\d{4}-\d\d-\d\d\.raw$/),
    ]);
    expect((await api("GET", `${vm}/config`)).data).toMatchObject({
      lock: "suspended",
      vmstate: `local:100/${images()[1]}`,
    });
    expect(await api("PUT", `${vm}/config`, { cores: 2 })).toMatchObject({
      status: 500,
      reason: "VM is locked (suspended)",
    });
    expect(await run("POST", `${vm}/status/start`)).toBe("OK");
    // A guest that was booted would count from zero.
    expect(await counterReaches(() => true)).toBeGreaterThanOrEqual(60);
    expect(await current()).toMatchObject({ status: "running", qmpstatus: "running" });
    expect(await current()).not.toHaveProperty("lock");
    expect(images()).toEqual(["vm-100-disk-0.qcow2"]);
    const config = (await api("GET", `${vm}/config`)).data;
    for (const key of ["vmstate", "runningmachine", "runningcpu"]) expect(config).not.toHaveProperty(key);
  });

  test("is resumed by resume as well; a paused one was saved like any other", async () => {
    expect(await run("POST", `${vm}/status/suspend`)).toBe("OK");
    expect(await current()).toMatchObject({ qmpstatus: "paused" });
    expect(await run("POST", `${vm}/status/suspend`, { todisk: 1 })).toBe("OK");
    expect(await run("POST", `${vm}/status/resume`)).toBe("OK");
    await counterReaches(() => true);
    expect(await current()).toMatchObject({ qmpstatus: "running" });
  });

  test("is destroyed with what was saved", async () => {
    expect(await run("POST", `${vm}/status/suspend`, { todisk: 1 })).toBe("OK");
    expect(await run("DELETE", vm)).toBe("OK");
    expect(existsSync(join(gpve.data, "storage/local/images/100"))).toBe(false);
  });
});
