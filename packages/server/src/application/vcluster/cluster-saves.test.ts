import { afterEach, describe, expect, test } from "vitest";
import type { VclusterBackupRow } from "@gpve/contracts/agent/vcluster-save-messages.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { clusterBackupCollection, clusterBackupsId } from "@gpve/domain/backup/cluster-backups.ts";
import type { Quota } from "@gpve/domain/quota/quota.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { openQuotaServer, putTenants, reportOf } from "../../testing/quota-world.ts";
import { cacheReader } from "../v1/adapter.ts";
import { clusterKeyFor } from "./cluster-names.ts";
import { ClusterSaves } from "./cluster-saves.ts";
import { VirtualClusters } from "./virtual-clusters.ts";
import { nodeRecords } from "../node/collections.ts";
import { joinedNode } from "../../testing/joined-node.ts";
import { boardPlacer } from "../../testing/board-placer.ts";
import { quietWatch } from "../../testing/quiet-kinds.ts";

const UPID = "UPID:n1:00000001:00000001:00000001:vcbackup:demo:root@pam:";
const ARCHIVE = "local:backup/vzdump-vc-demo_a-2026_01_02-03_04_05.tar.gz";
const quota: Quota = {
  name: "a",
  tenant: "a",
  limits: { vcCount: 2, cpu: 4, storage: 2 ** 30 },
  requests: {},
};
const ctx = {
  requestId: "r1",
  signal: new AbortController().signal,
  access: { has: () => true, require: () => undefined },
} as unknown as RequestContext;

let closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.reverse()) await close();
  closing = [];
});

async function world() {
  const clock = new FakeClock(1_000_000);
  const node = { node: "n1", call: () => Promise.reject(new Error("not asked")) };
  const server = await openQuotaServer(openSqliteStore({ path: ":memory:" }), { owner: "s1", clock, node });
  closing.push(() => server.close());
  await putTenants(server.records, [quota], ["a", "b"]);
  server.board.accept(reportOf([], clock.now()));
  const asked: { route: string; params: Record<string, unknown> }[] = [];
  const backups = new Map<string, VclusterBackupRow[]>();
  const refuse = new Map<string, AppError>();
  let saved: object = { workerNodes: { count: 1 }, node: "gone" };
  let task: () => Promise<void> = () => Promise.resolve();
  const deps = {
    records: server.records,
    board: server.board,
    clock,
    quotas: server.quotas.view,
    taskEnd: () => task(),
    calls: {
      call: async (at: string, route: string, params: unknown) => {
        asked.push({ route, params: params as Record<string, unknown> });
        const refused = refuse.get(route.slice(route.lastIndexOf("/") + 1));
        if (refused !== undefined) throw refused;
        if (route.endsWith("/backups")) return { data: backups.get(at) ?? [] } as never;
        return { data: route.includes("archive") ? { spec: saved } : UPID } as never;
      },
    },
  };
  const vclusters = new VirtualClusters({ ...deps, ...quietWatch, placer: boardPlacer(deps) });
  /** Whose etcd was to go on alone first. */
  const alone: string[] = [];
  const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
  const saves = new ClusterSaves({
    ...deps,
    vclusters,
    upgrades: { begin: async ({ name }) => `UPID:spread:${name}` },
    rotations: { begin: async ({ name }) => `UPID:spread-ca:${name}` },
    standDown: async (of) => void alone.push(of),
    log,
    storages: () => ({ backup: "nas" }),
    shutdown: ctx.signal,
  });
  await vclusters.create({ name: "demo", namespace: "a", spec: {} }, ctx);
  const key = (name: string, tenant = "a") => clusterKeyFor(cacheReader(server.records), { tenant, name });
  const specOf = (name: string) => server.records.collection(vclusterCollection).get(key(name))?.value.spec;
  return {
    records: server.records,
    board: server.board,
    clock,
    backups,
    saves,
    alone,
    vclusters,
    key,
    asked,
    refuse,
    specOf,
    says: (spec: object): void => {
      saved = spec;
    },
    ends: (end: () => Promise<void>): void => {
      task = end;
    },
  };
}

const restore = (saves: ClusterSaves, name: string, more: object = {}) =>
  saves.restore({ name, tenant: "a" }, { archive: ARCHIVE, ...more }, ctx, "r2");

describe("saves of virtual clusters at a server", () => {
  test("a backup goes to the storage for backups where none is named", async () => {
    const { saves, asked, key } = await world();
    expect(await saves.backUp(key("demo"), { notes: "n" }, ctx, "r2")).toBe(UPID);
    expect(asked.at(-1)?.params).toMatchObject({
      vcluster: key("demo"),
      tenant: "a",
      storage: "nas",
      notes: "n",
    });
    await saves.backUp(key("demo"), { storage: "local" }, ctx, "r3");
    expect(asked.at(-1)?.params).toMatchObject({ storage: "local" });
    await saves.list({ name: "demo", tenant: "a" }, ctx);
    expect(asked.at(-1)).toMatchObject({
      route: expect.stringContaining("/backups"),
      params: { vcluster: key("demo"), called: "demo", tenant: "a" },
    });
  });

  test("a restore is written down with what the archive says, as one's own on a node that sees it", async () => {
    const { saves, asked, specOf, key } = await world();
    await restore(saves, "copy");
    expect(asked.at(-1)).toMatchObject({
      route: expect.stringContaining("/restore"),
      params: {
        vcluster: key("copy"),
        called: "copy",
        tenant: "a",
        source: "a",
        archive: ARCHIVE,
        over: false,
      },
    });
    expect(specOf("copy")).toMatchObject({ workers: 1, node: "" });
  });

  test("a restore that the node refuses, or that has no room, leaves nothing", async () => {
    const { saves, refuse, specOf, says } = await world();
    refuse.set("restore", new AppError("request.invalid", "no"));
    await expect(restore(saves, "copy")).rejects.toThrow("no");
    expect(specOf("copy")).toBeUndefined();
    refuse.clear();
    says({ workerNodes: { count: 9 } });
    await expect(restore(saves, "copy")).rejects.toThrow(/quota/i);
    expect(specOf("copy")).toBeUndefined();
    await restore(saves, "copy", { workers: 0 });
    expect(specOf("copy")).toMatchObject({ workers: 0 });
  });

  test("a restore without workers is one without pools, other counts keep them", async () => {
    const restored = async (workers: number) => {
      const { saves, specOf, says } = await world();
      says({ workerNodes: { count: 1, pools: [{ name: "build", count: 1 }] } });
      await restore(saves, "copy", { workers });
      return specOf("copy");
    };
    expect(await restored(0)).not.toHaveProperty("pools");
    expect(await restored(1)).toMatchObject({ workers: 1, pools: [{ name: "build", count: 1 }] });
  });

  test("what is there is replaced only when that is said, and stays when the node refuses", async () => {
    const { alone, saves, asked, refuse, specOf, key } = await world();
    await expect(restore(saves, "demo")).rejects.toThrow("already exists");
    await restore(saves, "demo", { over: true });
    expect(asked.at(-1)?.params).toMatchObject({ vcluster: key("demo"), over: true });
    expect(alone).toEqual([key("demo")]);
    expect(specOf("demo")).toMatchObject({ workers: 1 });
    refuse.set("restore", new AppError("request.invalid", "no"));
    await expect(restore(saves, "demo", { over: true, workers: 2 })).rejects.toThrow("no");
    expect(specOf("demo")).toMatchObject({ workers: 1 });
    // The node may have begun: what it makes then counts.
    refuse.set("restore", new AppError("operation.cancelled", "the client hung up"));
    await expect(restore(saves, "demo", { over: true, workers: 2 })).rejects.toThrow("hung up");
    expect(specOf("demo")).toMatchObject({ workers: 2 });
  });

  test("whoever may not is refused before anything is written", async () => {
    const { saves, asked, specOf } = await world();
    const before = [specOf("demo"), asked.length];
    for (const pool of ["/pool/a", "/pool/b"]) {
      const require = (path: string): void => {
        if (path === pool) throw new AppError("access.denied", "no");
      };
      const poor = { ...ctx, access: { ...ctx.access, require } } as unknown as RequestContext;
      const target = { name: "demo", tenant: pool === "/pool/a" ? "a" : undefined };
      const archive = pool === "/pool/a" ? ARCHIVE : ARCHIVE.replace("_a-", "_b-");
      await expect(saves.restore(target, { archive, over: true }, poor, "r2")).rejects.toThrow("no");
    }
    expect([specOf("demo"), asked.length]).toEqual(before);
  });

  test("what is no name of a cluster, and what path and body do not agree on, is refused before anything is written", async () => {
    const { saves, asked, key } = await world();
    const before = asked.length;
    for (const name of ["1abc", key("demo"), "", "Demo", "a-".repeat(20)]) {
      const refused = saves.restore({ name, tenant: "default" }, { archive: ARCHIVE }, ctx, "r2");
      await expect(refused, name).rejects.toMatchObject({
        code: "request.invalid",
        message: expect.stringContaining(`'${name}' is not a name of a VirtualCluster (up to 32`),
      });
    }
    const two = saves.restore({ name: "copy", tenant: "a" }, { archive: ARCHIVE, tenant: "b" }, ctx, "r3");
    await expect(two).rejects.toMatchObject({
      code: "request.invalid",
      errors: { tenant: "must be 'a', as in the path, or left out" },
    });
    expect(asked).toHaveLength(before);
    await restore(saves, "copy", { tenant: "a" });
    expect(asked.at(-1)?.params).toMatchObject({ called: "copy", tenant: "a" });
  });

  test("in another's place is judged as a new one is: by ways out of the node, and by bounded volumes", async () => {
    const { saves, asked, says, specOf } = await world();
    const oidc = { issuerUrl: "https://192.168.1.1:9443", clientId: "kube" };
    says({ controlPlane: { oidc } });
    const require = (path: string, privileges: readonly string[]): void => {
      if (privileges.includes("Sys.AccessNetwork")) throw new AppError("access.denied", `not ${path}`);
    };
    const has = (path: string): boolean => path.startsWith("/pool/");
    const tenant = { ...ctx, access: { has, require } } as unknown as RequestContext;
    const target = { name: "demo", tenant: "a" };
    const over = { archive: ARCHIVE, over: true };
    const before = specOf("demo");
    await expect(saves.restore(target, over, tenant, "r2")).rejects.toThrow("not /nodes/n1");
    expect(specOf("demo")).toEqual(before);
    expect(asked.filter(({ route }) => route.endsWith("/restore"))).toEqual([]);

    says({ workerNodes: { count: 1 } });
    await saves.restore(target, over, tenant, "r3");
    expect(specOf("demo")).toMatchObject({ volumeBytes: 0 });
    expect(asked.at(-1)?.params["spec"]).toMatchObject({ quota: { storage: 0 } });
  });

  test("of one whose pods may be root is for who may let them, in another's place and beside it", async () => {
    const { saves, asked, says, specOf } = await world();
    says({ workerNodes: { count: 1, privileged: true } });
    const require = (path: string, privileges: readonly string[]): void => {
      if (privileges.includes("Sys.Console")) throw new AppError("access.denied", `not ${path}`);
    };
    const tenant = { ...ctx, access: { ...ctx.access, require } } as unknown as RequestContext;
    const before = specOf("demo");
    for (const [name, over] of [
      ["demo", true],
      ["fresh", false],
    ] as const)
      await expect(
        saves.restore({ name, tenant: "a" }, { archive: ARCHIVE, over }, tenant, "r2"),
      ).rejects.toThrow("not /");
    expect(specOf("demo")).toEqual(before);
    expect(asked.filter(({ route }) => route.endsWith("/restore"))).toEqual([]);
    await saves.restore({ name: "demo", tenant: "a" }, { archive: ARCHIVE, over: true }, ctx, "r3");
    expect(asked.at(-1)?.params["spec"]).toMatchObject({ workerNodes: { privileged: true } });
  });

  test("goes into the tenant that is named, else into that of the one which is meant", async () => {
    const { saves, asked, vclusters, key } = await world();
    const to = (tenant: string | undefined, more: object, as = ctx) =>
      saves.restore({ name: "demo", tenant }, { archive: ARCHIVE, ...more }, as, "r2");
    await to(undefined, { over: true });
    expect(asked.at(-1)?.params).toMatchObject({ vcluster: key("demo"), tenant: "a", over: true });
    await to("b", {});
    expect(asked.at(-1)?.params).toMatchObject({ vcluster: key("demo", "b"), tenant: "b", over: false });
    await expect(to(undefined, { over: true })).rejects.toThrow(
      "several tenants have a virtual cluster 'demo' (a, b)",
    );
    const has = (path: string): boolean => path === "/pool/b";
    const some = { ...ctx, access: { ...ctx.access, has } } as unknown as RequestContext;
    await to(undefined, { over: true }, some);
    expect(asked.at(-1)?.params).toMatchObject({ vcluster: key("demo", "b"), over: true });
    expect(vclusters.require(key("demo")).tenant).toBe("a");
  });

  test("without a tenant goes to that of the backup, where no cluster has the name", async () => {
    const { saves, asked, specOf } = await world();
    const archive = ARCHIVE.replace("_a-", "_b-");
    await saves.restore({ name: "copy", tenant: undefined }, { archive }, ctx, "r2");
    expect(asked.at(-1)?.params).toMatchObject({ called: "copy", tenant: "b", source: "b" });
    const require = (path: string, privileges: readonly string[]): void => {
      if (path === "/pool/b" && privileges.includes("VC.Allocate")) throw new AppError("access.denied", "no");
    };
    const poor = { ...ctx, access: { ...ctx.access, require } } as unknown as RequestContext;
    const before = asked.length;
    await expect(
      saves.restore({ name: "other", tenant: undefined }, { archive }, poor, "r3"),
    ).rejects.toThrow("no");
    expect([specOf("other"), asked.length]).toEqual([undefined, before]);
  });

  test("backups of a cluster that is gone are told by every node that sees some", async () => {
    const { saves, asked, board, clock, backups, key, refuse, records } = await world();
    await records.transact((tx) => tx.put(nodeRecords, "n2", joinedNode("n2")));
    board.accept({ ...reportOf([], clock.now()), node: "n2" });
    const row = (archive: string, time: number) => ({ archive, sizeBytes: 1, time });
    backups.set("n1", [row("nas:backup/x", 2)]);
    backups.set("n2", [row("nas:backup/x", 2), row("local:backup/y", 1)]);
    const gone = { name: "gone", tenant: "b" };
    const rows = await saves.list(gone, ctx);
    expect(rows.map(({ archive }) => archive)).toEqual(["local:backup/y", "nas:backup/x"]);
    expect(asked.at(-1)?.params).toEqual({ vcluster: key("gone", "b"), called: "gone", tenant: "b" });
    backups.clear();
    await expect(saves.list(gone, ctx)).rejects.toThrow("no node that is online sees a backup");
    refuse.set("backups", new AppError("node.unavailable", "says nothing"));
    await expect(saves.list(gone, ctx)).rejects.toThrow("n1: says nothing; n2: says nothing");

    expect(saves.tenantsOf("gone")).toEqual([]);
    await records.transact((tx) => {
      for (const [tenant, count] of [
        ["a/x", 2],
        ["b", 0],
      ] as const) {
        const value = { name: "gone", tenant, counts: { nas: count } };
        tx.put(clusterBackupCollection("n2"), clusterBackupsId(value), value);
      }
    });
    expect(saves.tenantsOf("gone")).toEqual(["a/x"]);
  });

  test("one that is put in another's place and fails leaves the record of what is there", async () => {
    const { saves, specOf, ends } = await world();
    const before = specOf("demo");
    ends(() => Promise.reject(new AppError("operation.failed", "returned")));
    await restore(saves, "demo", { over: true, workers: 2 });
    await expect.poll(() => specOf("demo")).toEqual(before);
  });

  test("goes to no node that would not get a new one, and to none that is named and lacks what it needs", async () => {
    const { saves, asked, says, specOf, records } = await world();
    const before = asked.length;
    const isWritten = () => [
      specOf("copy"),
      asked.slice(before).filter(({ route }) => route.startsWith("POST")),
    ];
    says({ workerNodes: { nodeSelector: { disk: "ssd" } } });
    for (const more of [{}, { node: "n1" }])
      await expect(restore(saves, "copy", more)).rejects.toThrow(/nodeSelector.* labels/);
    await expect(restore(saves, "demo", { over: true })).rejects.toThrow(
      "node n1 does not have these labels",
    );
    says({});
    await records.transact((tx) => tx.put(nodeRecords, "n1", joinedNode("n1", { unschedulable: true })));
    await expect(restore(saves, "copy")).rejects.toThrow(
      "no node can have the virtual cluster: 0 of 1 nodes can take it: 1 by NodeUnschedulable. n1: it is cordoned",
    );
    expect(isWritten()).toEqual([undefined, []]);
    // Who names it means it.
    await restore(saves, "copy", { node: "n1" });
    expect(specOf("copy")).toBeDefined();
  });

  test("an archive that no node reads, or that is none by its name, is told", async () => {
    const { saves, refuse } = await world();
    refuse.set("vcluster-archive", new AppError("object.not_found", "not here"));
    await expect(restore(saves, "copy")).rejects.toThrow("no node can read the backup");
    refuse.set("vcluster-archive", new AppError("access.denied", "not yours"));
    await expect(restore(saves, "copy")).rejects.toThrow("not yours");
    const none = { archive: "local:backup/vzdump-qemu-100-2026_01_02-03_04_05.vma" };
    await expect(saves.restore({ name: "x", tenant: "a" }, none, ctx, "r")).rejects.toThrow(
      "is no backup of",
    );
  });

  test("a new authority is its node's work, and so is the end of the old one", async () => {
    const { saves, asked, key } = await world();
    expect(await saves.rotateCa(key("demo"), { graceHours: 24 }, ctx, "r2")).toBe(UPID);
    expect(asked.at(-1)).toMatchObject({
      route: "POST /gpve/nodes/{node}/vclusters/{vcluster}/rotate-ca",
      params: { vcluster: key("demo"), graceHours: 24, requestId: "r2" },
    });
    await saves.rotateCa(key("demo"), { dropOld: true }, ctx, "r3");
    expect(asked.at(-1)?.params).toMatchObject({ dropOld: true });
    await expect(saves.rotateCa("none", {}, ctx, "r4")).rejects.toThrow("there is no VirtualCluster 'none'");
  });

  test("its spec follows an upgrade that has ended well, and no other", async () => {
    const { alone, saves, asked, specOf, ends, key } = await world();
    ends(() => Promise.reject(new AppError("operation.failed", "returned")));
    await saves.upgrade(key("demo"), { version: "1.37", drain: false }, ctx, "r2");
    expect(alone).toEqual([key("demo")]);
    expect(asked.at(-1)?.params).toMatchObject({ version: "1.37", drain: false });
    ends(() => Promise.resolve());
    await saves.upgrade(key("demo"), { version: "1.36", drain: false }, ctx, "r3");
    await expect.poll(() => specOf("demo")?.kubernetesVersion).toBe("1.36");
  });

  test("an upgrade that is refused leaves its etcd its standby", async () => {
    const { alone, saves, asked, refuse, key } = await world();
    refuse.set("upgrade-path", new AppError("request.invalid", "minors are not skipped"));
    await expect(saves.upgrade(key("demo"), { version: "1.38", drain: false }, ctx, "r2")).rejects.toThrow(
      "not skipped",
    );
    expect(alone).toEqual([]);
    expect(asked.at(-1)?.route).toMatch(/upgrade-path$/);
  });
});
