// Snapshots on real QEMU through the API: disks, RAM, the tree, going back, and refusals that leave the VM as it was.
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { createConnection } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { counterSector } from "@gpve/agent/testing/boot-sector.ts";
import { type Api, apiOf, firstNode, type Gpve, startGpve } from "../support/gpve.ts";
import { runTask, type TaskCall } from "../support/tasks.ts";

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

const run = async (...call: TaskCall) => (await runTask(api, ...call)).exitstatus;
const vm = (vmid = 100): string => `/nodes/${node}/qemu/${vmid}`;
const images = (vmid = 100): string => join(gpve.data, "storage/local/images", String(vmid));
const config = async () => (await api("GET", `${vm()}/config`)).data as Record<string, unknown>;
const rows = async () =>
  (await api("GET", `${vm()}/snapshot`)).data as { name: string; parent?: string; running?: number }[];
const qmpstatus = async () =>
  ((await api("GET", `${vm()}/status/current`)).data as { qmpstatus: string }).qmpstatus;
/** The next value that the guest writes to its serial port and that is wanted. */
const counterReaches = async (isWanted: (count: number) => boolean): Promise<number> => {
  const guest = join(gpve.data, "run/guests/100");
  const path = [join(guest, "serial0.sock"), join(guest, "io/serial0")].find((each) => existsSync(each));
  const serial = createConnection(path ?? "");
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
const diskSnapshots = async (file: string): Promise<string[]> => {
  const { stdout } = await exec("qemu-img", ["info", "-U", "--output=json", join(images(), file)]);
  const { snapshots = [] } = JSON.parse(stdout) as { snapshots?: { name: string }[] };
  return snapshots.map(({ name }) => name);
};

describe.skipIf(!hasQemu)("snapshots of a VM", () => {
  test("are taken of a stopped VM, listed as a tree and deleted", async () => {
    const made = await run("POST", `/nodes/${node}/qemu`, {
      vmid: 100,
      memory: 64,
      scsi0: "local:1,format=qcow2",
    });
    expect(made).toBe("OK");
    expect(await run("POST", `${vm()}/snapshot`, { snapname: "one", description: "first" })).toBe("OK");
    expect(await run("POST", `${vm()}/snapshot`, { snapname: "two" })).toBe("OK");
    expect(await rows()).toMatchObject([
      { name: "one", description: "first", vmstate: 0 },
      { name: "two", parent: "one", vmstate: 0 },
      { name: "current", parent: "two", running: 0, description: "You are here!" },
    ]);
    expect(await diskSnapshots("vm-100-disk-0.qcow2")).toEqual(["one", "two"]);
    expect(await run("POST", `${vm()}/snapshot`, { snapname: "two" })).toBe(
      "snapshot name 'two' already used",
    );
    expect(await run("DELETE", `${vm()}/snapshot/none`)).toBe("snapshot 'none' does not exist");
    expect(await run("DELETE", `${vm()}/snapshot/one`)).toBe("OK");
    expect(await rows()).toMatchObject([{ name: "two" }, { name: "current", parent: "two" }]);
    expect(await diskSnapshots("vm-100-disk-0.qcow2")).toEqual(["two"]);
    expect(await config()).not.toHaveProperty("unused0");
    expect((await api("PUT", `${vm()}/snapshot/two/config`, { description: "second" })).text).toBe(
      '{"data":null}',
    );
    expect((await api("GET", `${vm()}/snapshot/two/config`)).data).toMatchObject({ description: "second" });
  });

  test("go back: values and disks, and what came later becomes unused", async () => {
    await api("PUT", `${vm()}/config`, { cores: 2, scsi1: "local:1,format=qcow2" });
    expect(await run("POST", `${vm()}/snapshot/two/rollback`)).toBe("OK");
    const after = await config();
    expect(after).toMatchObject({ unused0: "local:100/vm-100-disk-1.qcow2", parent: "two" });
    expect(after).not.toHaveProperty("cores");
    expect(after).not.toHaveProperty("lock");
    expect(await run("POST", `${vm()}/snapshot/none/rollback`)).toBe("snapshot 'none' does not exist");
    await api("PUT", `${vm()}/config`, { delete: "unused0" });
    await run("DELETE", `${vm()}/snapshot/two`);
  });

  test("are refused for raw disks, and the VM stays as it was", async () => {
    expect(await run("POST", `/nodes/${node}/qemu`, { vmid: 101, scsi0: "local:1,format=raw" })).toBe("OK");
    expect(await run("POST", `${vm(101)}/snapshot`, { snapname: "one" })).toBe(
      "snapshot feature is not available",
    );
    expect((await api("GET", `${vm(101)}/config`)).data).not.toHaveProperty("lock");
    expect(await api("POST", `${vm(101)}/snapshot`, { snapname: "current" })).toMatchObject({
      status: 500,
      reason: "unable to use snapshot name 'current' (reserved name)",
    });
  });

  test("are taken and deleted while the VM runs", async () => {
    expect(await run("POST", `${vm()}/status/start`)).toBe("OK");
    expect(await run("POST", `${vm()}/snapshot`, { snapname: "live" })).toBe("OK");
    expect(await qmpstatus()).toBe("running");
    expect(await diskSnapshots("vm-100-disk-0.qcow2")).toEqual(["live"]);
    expect(await run("POST", `${vm()}/clone`, { newid: 102, full: 1, snapname: "live" })).toBe("OK");
    expect(existsSync(join(images(102), "vm-102-disk-0.qcow2"))).toBe(true);
    expect(await run("DELETE", vm(102))).toBe("OK");
    expect(await run("DELETE", `${vm()}/snapshot/live`)).toBe("OK");
    expect(await diskSnapshots("vm-100-disk-0.qcow2")).toEqual([]);
    expect(await config()).not.toHaveProperty("unused0");
    expect(await run("POST", `${vm()}/status/stop`)).toBe("OK");
  });

  test("with RAM continue where the guest was", async () => {
    const folder = join(gpve.data, "storage/local/import");
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "counter.raw"), counterSector());
    await api("PUT", `${vm()}/config`, {
      scsi0: "local:0,import-from=local:import/counter.raw,format=qcow2",
      serial0: "socket",
      net0: "virtio",
    });
    expect(await run("POST", `${vm()}/status/start`)).toBe("OK");
    await counterReaches((count) => count >= 30);
    expect(await run("POST", `${vm()}/snapshot`, { snapname: "ram", vmstate: 1 })).toBe("OK");
    expect(await qmpstatus()).toBe("running");
    await counterReaches((count) => count >= 200);
    expect(readdirSync(images())).toContain("vm-100-state-ram.raw");
    expect(await rows()).toMatchObject([
      { name: "ram", vmstate: 1 },
      { name: "current", running: 1 },
    ]);
    // QEMU itself said what the guest knows of its network.
    expect((await api("GET", `${vm()}/snapshot/ram/config`)).data).toMatchObject({
      "running-nets-host-mtu": expect.stringMatching(/^net0=\d+$/),
    });
    expect(await run("POST", `${vm()}/snapshot/ram/rollback`)).toBe("OK");
    // Not 200 as before the rollback, and not from zero as after a boot. Between them lie nine seconds, which a busy host
    // may take for the snapshot and for the way back.
    const back = await counterReaches(() => true);
    expect(back).toBeGreaterThanOrEqual(30);
    expect(back).toBeLessThan(195);
    expect(await qmpstatus()).toBe("running");
    expect(await run("DELETE", `${vm()}/snapshot/ram`)).toBe("OK");
    expect(readdirSync(images())).not.toContain("vm-100-state-ram.raw");
  });

  test("a VM with snapshots is destroyed with everything", async () => {
    await run("POST", `${vm()}/snapshot`, { snapname: "last", vmstate: 1 });
    await run("POST", `${vm()}/status/stop`);
    expect(await run("DELETE", vm())).toBe("OK");
    expect(existsSync(images())).toBe(false);
  });
});
