// A whole node in one process, on a made-up host's programs and a real data directory.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AgentCall } from "@gpve/domain/node/agent-port.ts";
import type { NodeReport } from "@gpve/domain/node/runtime.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { openDataDir } from "@gpve/kit/data-dir.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { reportLocally } from "./application/report/reporter.ts";
import { composeNode, type ComposedNode } from "./compose-node.ts";
import { createClusterAccess } from "./infrastructure/access/cluster-access.ts";
import { StoreTaskPublisher } from "./infrastructure/operation/store-task-publisher.ts";
import { madeUpExec } from "./testing/made-up-host.ts";

let dir = "";
let node: ComposedNode;
const store = openSqliteStore({ path: ":memory:" });
const stop = new AbortController();
const call = (route: string, params: Record<string, unknown>, userid = "root@pam"): AgentCall => ({
  route,
  params: { node: "n1", ...params },
  actor: { userid, authid: userid },
  requestId: "r",
  clientAddress: "::1",
});

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "gpve-compose-"));
  const records = await openRecords(store, { prefix: "/gpve/", signal: stop.signal, log: silentLogger });
  node = await composeNode({
    node: "n1",
    data: openDataDir(dir),
    clock: systemClock,
    exec: madeUpExec({ getconf: "100" }),
    log: silentLogger,
    publisher: new StoreTaskPublisher(store),
    accessOf: createClusterAccess(records, systemClock),
    qemuBinary: "/nowhere/qemu",
    areas: () => [{ "GET /nodes/{node}/hosts": (_params, ctx) => ctx.access.has("/", ["Sys.Audit"]) }],
    guests: () => [],
    storages: () => [],
  });
  await node.start();
});
afterAll(async () => {
  stop.abort();
  await node.close();
  await store.close();
  rmSync(dir, { recursive: true, force: true });
});

describe("a composed node", () => {
  test("answers node and task methods with checked parameters", async () => {
    const status = await node.agent.call(call("GET /nodes/{node}/status", {}), stop.signal);
    expect(status.data).toMatchObject({
      cpuinfo: { cpus: expect.any(Number) },
      memory: { total: expect.any(Number) },
    });
    expect(await node.agent.call(call("GET /nodes/{node}/tasks", { limit: "5" }), stop.signal)).toMatchObject(
      { data: [] },
    );
    const bad = node.agent.call(call("GET /nodes/{node}/rrddata", { timeframe: "eon" }), stop.signal);
    await expect(bad).rejects.toMatchObject({ pveStatus: 400, errors: { timeframe: expect.any(String) } });
    const rows = await node.agent.call(
      { ...call("GET /nodes/{node}/rrddata", { timeframe: "day" }), source: "json" },
      stop.signal,
    );
    expect(rows.data).toHaveLength(1_440);
  });

  test("knows from the cluster's records who may do what", async () => {
    const may = async (userid: string) =>
      (await node.agent.call(call("GET /nodes/{node}/hosts", {}, userid), stop.signal)).data;
    expect(await may("root@pam")).toBe(true);
    expect(await may("joe@pve")).toBe(false);
  });

  test("reports to a board in the same process", async () => {
    const report = await new Promise<NodeReport>((resolve) => {
      const once = new AbortController();
      void reportLocally(node.reporter, (next) => (once.abort(), resolve(next)), {
        clock: systemClock,
        signal: once.signal,
      });
    });
    expect(report).toMatchObject({ node: "n1", facts: { accelerator: "none" }, guests: [] });
  });
});
