// All VMs of a node at once, and what is kept of their figures.
import { existsSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Api, apiOf, firstNode, type Gpve, startGpve } from "../support/gpve.ts";
import { waitTask } from "../support/tasks.ts";

const hasQemu = existsSync("/usr/bin/qemu-system-x86_64");
if (!hasQemu) console.warn("SKIPPED: no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils");

describe.skipIf(!hasQemu)("all VMs of a node", () => {
  let gpve: Gpve;
  let api: Api;
  let node: string;
  const run = async (path: string, params?: Record<string, string | number>) => {
    const answer = await api("POST", path, params);
    expect(answer.status, answer.text).toBe(200);
    return waitTask(api, answer.data as string);
  };
  const running = async () =>
    ((await api("GET", `/nodes/${node}/qemu`)).data as { vmid: number; status: string }[])
      .filter(({ vmid }) => vmid > 0)
      .map(({ vmid }) => vmid);

  beforeAll(async () => {
    gpve = await startGpve();
    api = apiOf(gpve.credentials);
    node = await firstNode(api);
    for (const [vmid, startup] of [
      [100, "order=2"],
      [101, "order=1,up=1"],
    ] as const) {
      await run(`/nodes/${node}/qemu`, { vmid, memory: 16, startup, onboot: vmid === 100 ? 1 : 0 });
    }
  });
  afterAll(() => gpve.stop());

  test("start in their order: those that start at boot, or all", async () => {
    expect(await run(`/nodes/${node}/startall`)).toMatchObject({ exitstatus: "OK", type: "startall" });
    const status = async (vmid: number) =>
      ((await api("GET", `/nodes/${node}/qemu/${vmid}/status/current`)).data as { status: string }).status;
    expect([await status(100), await status(101)]).toEqual(["running", "stopped"]);
    expect(await run(`/nodes/${node}/startall`, { force: 1 })).toMatchObject({ exitstatus: "OK" });
    expect(await status(101)).toBe("running");
    expect(await running()).toHaveLength(2);
    expect((await api("GET", `/nodes/${node}/qemu/100/rrddata`, { timeframe: "hour" })).status).toBe(200);
    expect(await run(`/nodes/${node}/suspendall`)).toMatchObject({ exitstatus: "OK" });
    expect(await run(`/nodes/${node}/stopall`, { timeout: 1 })).toMatchObject({ exitstatus: "OK" });
    expect([await status(100), await status(101)]).toEqual(["stopped", "stopped"]);
  });
});
