// A running VM on its way to a cluster that is made up.
import { AppError } from "@gpve/contracts/errors.ts";
import type { RemoteCluster, RemoteOffer } from "@gpve/domain/vm/migrate/remote-cluster.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { MemoryTaskLogs } from "@gpve/kit/testing/memory-task-logs.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { FakeGuest } from "../../../testing/fake-guests.ts";
import { contextOf } from "../../../testing/storage-world.ts";
import { VmWorld } from "../../../testing/vm-world.ts";
import { RemoteMigration } from "./remote-migrate.ts";

let world: VmWorld;
let engine: OperationEngine;
let logs: MemoryTaskLogs;
let remote: RemoteMigration;
let calls: string[];
let offers: RemoteOffer[];
let lost: AbortController;
/** What the tasks there end with, by their type. */
let ends: Record<string, string | undefined>;
let commit: () => Promise<void>;
let start: () => Promise<void>;

beforeEach(async () => {
  world = await VmWorld.open();
  ({ engine, logs } = testEngine());
  [calls, offers, lost, ends] = [[], [], new AbortController(), {}];
  commit = async () => undefined;
  start = async () => undefined;
  const cluster: RemoteCluster = {
    call: async (method, path, params = {}) => {
      calls.push(`${method} ${path}${params["name"] === undefined ? "" : ` ${JSON.stringify(params)}`}`);
      if (path === "/version") return { version: "9.2" };
      if (path.endsWith("/mtunnel")) return { upid: "UPID:far:qmarrive", socket: "s", ticket: "verysecret" };
      if (!path.endsWith("/status")) return "UPID:far:qmcreate";
      const type = decodeURIComponent(path).includes("qmarrive") ? "qmarrive" : "qmcreate";
      return { status: "stopped", exitstatus: ends[type] ?? "OK" };
    },
    upload: () => Promise.reject(new Error("nothing of one that runs is uploaded")),
    peer: async (_vmid, { ticket }) => ({
      start: async (offer) => {
        calls.push(`start ${ticket === "verysecret"}`);
        offers.push(offer);
        await start();
      },
      commit: () => commit(),
      forward: async (_process, channel) => ({
        path: `/run/${channel}`,
        allow: () => undefined,
        isExceeded: false,
        close: async () => undefined,
      }),
      lost: lost.signal,
      close: () => void calls.push("close"),
    }),
  };
  const clock = { ...world.host.clock, sleep: () => new Promise<void>((done) => void setImmediate(done)) };
  remote = new RemoteMigration({ ...world.host, clock, reach: () => cluster }, engine);
  engine.register(remote.operation());
  engine.register({
    type: "qmdestroy",
    steps: [{ name: "destroy", run: () => void calls.push("destroyed") }],
  });
  await engine.start();
  world.guests.answers.set("query-jobs", () => []);
  await world.add(100, { name: "web", memory: "128", vmgenid: "6c0a7f6e-52f7-4a61-8a4a-2d2a60ad5dd4" });
  await world.run(100);
});
afterEach(async () => {
  await engine.stop();
  world.remove();
});

const guest = () => world.guests.qemu("100") as FakeGuest | undefined;
const ask = (more: object = {}) =>
  remote.request(
    {
      node: "n1",
      vmid: 100,
      "target-endpoint": "host=far,apitoken=root@pam!m=verysecret",
      "target-vmid": 300,
      "target-storage": "store",
      "target-bridge": "1",
      online: true,
      ...more,
    },
    contextOf(undefined),
  );
const moved = async (more: object = {}) => {
  const upid = await ask(more);
  const { exitStatus } = await engine.wait(upid);
  return { exitStatus, log: (logs.lines.get(upid) ?? []).join("\n") };
};

it("goes on there, and stays here stopped and locked", async () => {
  const process = guest();
  const { exitStatus, log } = await moved();
  expect(exitStatus).toBe("OK");
  expect(log).toMatch(/VM 300 was made there[^]*goes on there[^]*stopped here, and locked/);
  expect(log).not.toContain("verysecret");
  expect(offers).toMatchObject([
    { isPaused: false, disks: [], vmgenid: "6c0a7f6e-52f7-4a61-8a4a-2d2a60ad5dd4" },
  ]);
  expect(calls.filter((each) => each.startsWith("POST") && !each.includes("vmgenid"))).toHaveLength(2);
  expect(process?.hasExited).toBe(true);
  expect(world.values(100)["lock"]).toBe("migrate");
});

it("is destroyed here when that was asked for", async () => {
  expect((await moved({ delete: true })).exitStatus).toBe("OK");
  await vi.waitFor(() => expect(calls.at(-1)).toBe("destroyed"), { timeout: 30_000 });
});

it("runs on here when the other side does not take it, which then has nothing of it", async () => {
  ends = { qmcreate: "no room" };
  expect((await moved()).exitStatus).toContain("no room");
  ends = {};
  start = () => Promise.reject(new AppError("operation.failed", "no such CPU"));
  const { exitStatus, log } = await moved();
  expect(exitStatus).toContain("no such CPU");
  expect(log).toContain("VM 100 runs on here");
  expect(calls.at(-1)).toBe("close");
  expect(guest()).toMatchObject({ hasExited: false, status: "running" });
  expect(world.values(100)["lock"]).toBeUndefined();
});

it("runs on here when the line is cut on the way", async () => {
  guest()?.qmp.answers.set("migrate", () => ({}));
  guest()?.qmp.answers.set("query-migrate", () => ({ status: "active", ram: { total: 1, remaining: 1 } }));
  guest()?.qmp.answers.set("migrate_cancel", () => {
    guest()?.qmp.answers.set("query-migrate", () => ({ status: "cancelled" }));
    return {};
  });
  start = async () => void setTimeout(() => lost.abort(new AppError("node.unavailable", "hung up")), 20);
  expect((await moved()).exitStatus).toContain("hung up");
  expect(guest()?.hasExited).toBe(false);
});

it("asks the other side's task when the answer to its last word is lost", async () => {
  commit = () => Promise.reject(new AppError("node.unavailable", "hung up"));
  ends = { qmarrive: "the other cluster hung up" };
  const { exitStatus, log } = await moved();
  expect(exitStatus).toContain("the other cluster says: the other cluster hung up");
  expect(log).toContain("is not known yet: hung up");
  expect(guest()).toMatchObject({ hasExited: false, status: "running" });
  ends = {};
  const process = guest();
  expect((await moved()).exitStatus).toBe("OK");
  expect(process?.hasExited).toBe(true);
});

it("is refused with what it cannot take along, and a VM that was made for nothing is removed", async () => {
  await world.configs.change(100, (config) => ({
    ...config,
    values: { ...config.values, serial1: "/dev/ttyS0" },
  }));
  await expect(ask()).rejects.toThrow("devices of this node");
  await expect(ask({ online: false })).rejects.toThrow("without --online");
});
