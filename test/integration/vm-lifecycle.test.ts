// A VM's life on real QEMU, through the API of a real `gpve up`: made, started, changed, adopted, stopped, destroyed.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Api, apiOf, firstNode, type Gpve, startGpve } from "../support/gpve.ts";
import { staleRounds } from "../support/listed-states.ts";
import { runTask, type TaskCall } from "../support/tasks.ts";

const hasQemu = existsSync("/usr/bin/qemu-system-x86_64");
if (!hasQemu) console.warn("SKIPPED: no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils");

let gpve: Gpve;
let api: Api;
let node: string;

async function connect(): Promise<void> {
  api = apiOf(gpve.credentials);
  node = await firstNode(api);
}

beforeAll(async () => {
  gpve = await startGpve();
  await connect();
});
afterAll(() => gpve.stop());

const run = (...call: TaskCall) => runTask(api, ...call);
const status = async (vmid: number) =>
  (await api("GET", `/nodes/${node}/qemu/${vmid}/status/current`)).data as {
    status: string;
    qmpstatus: string;
    pid: number;
    "running-machine": string;
  };

describe.skipIf(!hasQemu)("a VM", () => {
  const vm = (): string => `/nodes/${node}/qemu/100`;

  test("is made with a disk, an identity and a boot order", async () => {
    const made = await run("POST", `/nodes/${node}/qemu`, {
      vmid: 100,
      name: "web",
      memory: 64,
      scsi0: "local:1,format=qcow2",
      serial0: "socket",
    });
    expect(made).toMatchObject({ exitstatus: "OK", type: "qmcreate", id: "100" });
    expect((await api("GET", `${vm()}/config`)).data).toMatchObject({
      boot: "order=scsi0",
      memory: "64",
      name: "web",
      scsi0: "local:100/vm-100-disk-0.qcow2,size=1G",
      smbios1: expect.stringMatching(/^uuid=[0-9a-f-]{36}$/),
      meta: expect.stringMatching(/^creation-qemu=\d/),
    });
    expect(await api("POST", `/nodes/${node}/qemu`, { vmid: 100 })).toMatchObject({
      status: 500,
      reason: `unable to create VM 100 - VM 100 already exists on node '${node}'`,
    });
  });

  test("a failed creation leaves nothing", async () => {
    const gone = "local:101/vm-101-disk-7.raw";
    expect(
      (await run("POST", `/nodes/${node}/qemu`, { vmid: 101, scsi0: "local:1", scsi1: gone })).exitstatus,
    ).toContain(`'${gone}'`);
    expect((await api("GET", `/nodes/${node}/qemu/101/config`)).reason).toContain("does not exist");
    expect(
      existsSync(join(gpve.data, "storage/local/images/101")) &&
        readdirSync(join(gpve.data, "storage/local/images/101")).length > 0,
    ).toBe(false);
  });

  test("runs under its own uid, with nothing of the host's files", async () => {
    expect(await run("POST", `${vm()}/status/start`)).toMatchObject({ exitstatus: "OK" });
    const { pid, status: state, "running-machine": machine } = await status(100);
    expect(state).toBe("running");
    expect(machine).toMatch(/^pc-i440fx-\d/);
    if (process.getuid?.() === 0) {
      const uid = Number(/^Uid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
      expect(uid).toBeGreaterThan(1000);
      expect(existsSync(join("/proc", String(pid), "root", "etc", "passwd"))).toBe(false);
    }
    expect((await run("POST", `${vm()}/status/start`)).exitstatus).toBe("VM 100 already running");
    expect(await api("DELETE", vm())).toMatchObject({
      status: 500,
      reason: "VM 100 is running - destroy failed",
    });
  });

  test("is paused and resumed", async () => {
    await run("POST", `${vm()}/status/suspend`);
    expect(await status(100)).toMatchObject({ status: "running", qmpstatus: "paused" });
    expect(await api("POST", `${vm()}/status/shutdown`)).toMatchObject({
      status: 500,
      reason: "VM is paused - cannot shutdown",
    });
    await run("POST", `${vm()}/status/resume`);
    expect(await status(100)).toMatchObject({ qmpstatus: "running" });
  });

  test("outlives a kill of everything above it and is found again", async () => {
    const before = await status(100);
    await gpve.kill();
    expect(existsSync(`/proc/${before.pid}`)).toBe(true);
    gpve = await gpve.restart();
    await connect();
    expect(await status(100)).toMatchObject({ status: "running", qmpstatus: "running", pid: before.pid });
  });

  test("keeps changes that need a start until then", async () => {
    expect(
      (await api("PUT", `${vm()}/config`, { cores: 2, description: "hello", scsi1: "local:1" })).text,
    ).toBe('{"data":null}');
    const pending = (await api("GET", `${vm()}/pending`)).data as {
      key: string;
      value?: string;
      pending?: string | number;
    }[];
    expect(pending).toContainEqual({ key: "cores", pending: 2 });
    expect(pending).toContainEqual({ key: "description", value: "hello" });
    await run("POST", `${vm()}/status/stop`);
    await run("POST", `${vm()}/status/start`);
    expect((await api("GET", `${vm()}/config`, { current: 1 })).data).toMatchObject({
      cores: 2,
      scsi1: "local:100/vm-100-disk-1.raw,size=1G",
    });
  });

  test("is listed as what a task made of it as soon as the task has ended", async () => {
    await run("POST", `${vm()}/status/stop`);
    expect(await staleRounds(api, { node, vmid: 100 }, 6)).toEqual([]);
    await run("POST", `${vm()}/status/start`);
  });

  test("is shut down, loses a disk to unused, and is destroyed with all its volumes", async () => {
    // Nothing listens to the power button: the task fails in time, or ends the guest when told to.
    expect((await run("POST", `${vm()}/status/shutdown`, { timeout: 1 })).exitstatus).toBe(
      "VM quit/powerdown failed - got timeout",
    );
    expect(await run("POST", `${vm()}/status/shutdown`, { timeout: 1, forceStop: 1 })).toMatchObject({
      exitstatus: "OK",
    });
    expect(await status(100)).toMatchObject({ status: "stopped", qmpstatus: "stopped" });
    await api("PUT", `${vm()}/config`, { delete: "scsi1,net7" });
    expect((await api("GET", `${vm()}/config`)).data).toMatchObject({
      unused0: "local:100/vm-100-disk-1.raw",
    });
    expect(await run("DELETE", vm())).toMatchObject({ exitstatus: "OK" });
    expect(await api("GET", `${vm()}/status/current`)).toMatchObject({
      status: 500,
      reason: `Configuration file 'nodes/${node}/qemu-server/100.conf' does not exist`,
    });
    const left = join(gpve.data, "storage/local/images/100");
    expect(existsSync(left) ? readdirSync(left) : []).toEqual([]);
  });
});
