// A running single node becomes the first of a cluster by one command, and goes back by another: guests run on.
import { existsSync, mkdtempSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { etcdMissing } from "@gpve/store/testing/etcd-cluster.ts";
import { apiOf, mainFile, nodeBinary, nodeOptions, readCredentials } from "../support/gpve.ts";
import { removeNode, removeWallOf } from "../support/left-guests.ts";
import { freePorts } from "../support/parts.ts";

if (etcdMissing !== undefined) console.warn(`SKIPPED: ${etcdMissing}`);
const dir = mkdtempSync(join(tmpdir(), "gpve-init-"));
const data = join(dir, "one");
const okCodes = Array.from({ length: 256 }, (_, code) => code);
const gpve = (...args: readonly string[]) =>
  exec(nodeBinary, [...nodeOptions, mainFile, ...args], { okCodes, timeoutMs: 240_000 });
afterAll(async () => {
  await gpve("down", "--data", data);
  await removeWallOf(data);
  await removeNode(dir, data);
});

test.skipIf(etcdMissing !== undefined)(
  "SQLite to etcd and back by one command each: nothing is lost, and the guest runs on",
  async () => {
    const [port = 0, etcd = 0, peer = 0, agent = 0] = await freePorts(4);
    const listen = `127.0.0.1:${port}`;
    const started = await gpve(
      "up",
      "--data",
      data,
      "--listen",
      listen,
      "--node",
      "one",
      "--no-network",
      "--detach",
    );
    expect([started.code, started.stderr]).toEqual([0, expect.anything()]);
    const api = () => apiOf(readCredentials(data));
    expect((await api()("POST", "/pools", { poolid: "kept" })).status).toBe(200);
    const vm = { vmid: 100, memory: 64, kvm: 0, name: "runs-on", pool: "kept" };
    expect((await api()("POST", "/nodes/one/qemu", vm)).status).toBe(200);
    const current = async () =>
      (await api()("GET", "/nodes/one/qemu/100/status/current")).data as {
        status?: string;
        pid?: number;
      } | null;
    await expect.poll(async () => (await current())?.status, { timeout: 150_000 }).toBe("stopped");
    await api()("POST", "/nodes/one/qemu/100/status/start");
    await expect.poll(async () => (await current())?.status, { timeout: 150_000 }).toBe("running");
    const pid = (await current())?.pid;
    // An agent that has just started may still be reading the cluster's records.
    const runsOn = () =>
      expect.poll(current, { timeout: 150_000 }).toEqual(expect.objectContaining({ status: "running", pid }));

    const ports = ["--etcd-port", `${etcd}`, "--etcd-peer-port", `${peer}`, "--agent-port", `${agent}`];
    const places = ["--data", data, "--address", "127.0.0.1", "--listen", listen, "--name", "home"];
    const moved = await gpve("cluster", "init", ...places, ...ports, "--no-network");
    expect([moved.code, moved.stdout + moved.stderr]).toEqual([0, expect.stringContaining("the way back")]);
    await runsOn();
    expect((await api()("GET", "/pools")).data).toMatchObject([{ poolid: "kept" }]);
    const status = (await api()("GET", "/cluster/status")).data as object[];
    expect(status).toMatchObject([
      { type: "cluster", name: "home", quorate: 1 },
      { type: "node", name: "one", nodeid: 1, local: 1, online: 1 },
    ]);
    expect((await api()("POST", "/pools", { poolid: "later" })).status).toBe(200);
    expect((await gpve("cluster", "init", ...places)).stderr).toContain("is of a cluster already");

    // It stays one over a restart, and what was written since goes back with it.
    await gpve("down", "--data", data);
    expect((await gpve("up", "--data", data, "--no-network", "--detach")).code).toBe(0);
    await runsOn();
    const back = await gpve("cluster", "undo", "--data", data, "--no-network");
    expect([back.code, back.stdout + back.stderr]).toEqual([0, expect.stringContaining("in SQLite again")]);
    expect(((await api()("GET", "/pools")).data as object[]).length).toBe(2);
    await runsOn();
    expect(existsSync(join(data, "cluster.json"))).toBe(false);
    expect(readdirSync(data).some((name) => name.startsWith("etcd.before-"))).toBe(true);
  },
  600_000,
);
