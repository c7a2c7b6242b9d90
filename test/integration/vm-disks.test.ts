// Disks of a running and a stopped VM on real QEMU, through the API: clones, growing, moving.
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { apiOf, startGpve, type Api, type Gpve } from "../support/gpve.ts";
import { waitTask } from "../support/tasks.ts";

const hasQemu = existsSync("/usr/bin/qemu-system-x86_64");
if (!hasQemu) console.warn("SKIPPED: no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils");

let gpve: Gpve;
let api: Api;
let node: string;

beforeAll(async () => {
  gpve = await startGpve();
  api = apiOf(gpve.credentials);
  node = ((await api("GET", "/nodes")).data as { node: string }[])[0]?.node ?? "";
});
afterAll(() => gpve.stop());

const run = async (method: string, path: string, params?: Record<string, string | number>) => {
  const answer = await api(method, path, params);
  expect(answer.status, answer.text).toBe(200);
  return (await waitTask(api, answer.data as string)).exitstatus;
};
const vm = (vmid = 100): string => `/nodes/${node}/qemu/${vmid}`;
const images = (vmid = 100): string => join(gpve.data, "storage/local/images", String(vmid));
const config = async (vmid = 100) => (await api("GET", `${vm(vmid)}/config`)).data as Record<string, string>;
const status = async (vmid = 100) =>
  ((await api("GET", `${vm(vmid)}/status/current`)).data as { qmpstatus: string }).qmpstatus;
const sizeOf = async (path: string): Promise<number> => {
  const { stdout } = await exec("qemu-img", ["info", "-U", "--output=json", path]);
  return (JSON.parse(stdout) as { "virtual-size": number })["virtual-size"];
};

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

  test("with an I/O thread are moved where QEMU can, and where not, nothing hangs", async () => {
    const disk = "local:0.01,format=qcow2,iothread=1";
    const values = { vmid: 120, memory: 32, scsihw: "virtio-scsi-single", scsi0: disk, start: 1 };
    expect(await run("POST", `/nodes/${node}/qemu`, values)).toBe("OK");
    const { "running-qemu": version } = (await api("GET", `${vm(120)}/status/current`)).data as {
      "running-qemu": string;
    };
    const move = { disk: "scsi0", storage: "local", format: "raw", delete: 1 };
    if (Number.parseInt(version, 10) >= 9) expect(await run("POST", `${vm(120)}/move_disk`, move)).toBe("OK");
    else
      expect(await api("POST", `${vm(120)}/move_disk`, move)).toMatchObject({
        status: 500,
        reason: expect.stringContaining("stop VM 120 first"),
      });
    expect(await status(120)).toBe("running");
    await run("POST", `${vm(120)}/status/stop`);
    if (Number.parseInt(version, 10) < 9) expect(await run("POST", `${vm(120)}/move_disk`, move)).toBe("OK");
    expect(await run("DELETE", vm(120))).toBe("OK");
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
    expect(await run("POST", `${vm(102)}/status/start`)).toBe("OK");
    expect(await status(102)).toBe("running");
    await run("POST", `${vm(102)}/status/stop`);
    for (const vmid of [102, 101, 100]) expect(await run("DELETE", vm(vmid))).toBe("OK");
    expect(existsSync(images(101))).toBe(false);
  });
});
