import { plainItems } from "../../testing/plain-items.ts";
import { given } from "@gpve/contracts/given.ts";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "@gpve/kit/clock.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { testSaga } from "@gpve/kit/testing/saga-harness.ts";
import type { CollectionDef, Records } from "@gpve/store/records/port.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { silent, startV1 } from "../../presentation/v1/testing/v1-server.ts";
import type { V1TestServer } from "../../presentation/v1/testing/v1-server.ts";
import { AccessDirectory } from "@gpve/domain/access/access-directory.ts";
import { aclDef, poolsDef, rolesDef, usersDef } from "@gpve/domain/access/collections.ts";
import { APPLY_OPERATION, applyObjectsOperation, submitApplyTo } from "./apply-objects.ts";
import type { ApplyArgs } from "./apply-objects.ts";
import { createKindAdapters } from "./kind-adapters.ts";
import { metaCollection } from "./object-meta.ts";
import { quietKinds } from "../../testing/quiet-kinds.ts";

const board = { list: () => [], get: () => undefined, generation: () => 0 };
const object = (kind: string, name: string | undefined, spec: object, more: object = {}) => ({
  apiVersion: "gpve.io/v1",
  kind,
  metadata: { ...given({ name }), ...more },
  spec,
});
const team = [
  // Out of order on purpose: what is referred to is applied first.
  object("Binding", undefined, {
    path: "/pool/web",
    role: "Viewer",
    subjects: [{ kind: "User", name: "joe@pve" }],
  }),
  object("User", "joe@pve", { comment: "made by apply" }),
  object("Tenant", "web", { comment: "shop" }, { labels: { tier: "gold" } }),
  object("Role", "Viewer", { privileges: ["Pool.Audit", "VM.Audit"] }),
];

describe("plan and apply", () => {
  let v1: V1TestServer;
  let engine: OperationEngine;
  beforeEach(async () => {
    engine = testEngine().engine;
    v1 = await startV1({ deps: { submitApply: submitApplyTo(engine, plainItems) } });
    engine.register(
      applyObjectsOperation({
        seals: plainItems,
        records: v1.records,
        clock: systemClock,
        adapters: v1.adapters,
        accessOf: (actor) => v1.directory.view(actor),
        log: silent,
      }),
    );
    await engine.start();
  });
  afterEach(async () => {
    await engine.stop();
    await v1.close();
  });

  it("shows every change field by field and makes none", async () => {
    const { status, body } = await v1.ask("POST", "/plan", { body: { objects: team } });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      applicable: true,
      items: [
        { kind: "Role", name: "Viewer", action: "create" },
        {
          kind: "Tenant",
          name: "web",
          action: "create",
          changes: [
            { path: "metadata.labels.tier", op: "add", after: "gold" },
            { path: "spec.comment", op: "add", after: "shop" },
          ],
        },
        { kind: "User", name: "joe@pve", action: "create" },
        { kind: "Binding", name: "Viewer@/pool/web", action: "create" },
      ],
    });
    expect((await v1.ask("GET", "/tenants")).body.items).toEqual([]);
  });

  it("applies everything as one task, and then has nothing more to do", async () => {
    const applied = await v1.ask("POST", "/apply", {
      body: { objects: team },
      headers: { "idempotency-key": "a1" },
    });
    expect(applied.status).toBe(202);
    const again = await v1.ask("POST", "/apply", {
      body: { objects: team },
      headers: { "idempotency-key": "a1" },
    });
    expect(again.body).toEqual(applied.body);
    const ended = await engine.wait(String(applied.body["task"]));
    expect(ended.exitStatus).toBe("OK");
    expect((await v1.ask("GET", "/tenants/web", { as: "joe@pve" })).body).toMatchObject({
      metadata: { labels: { tier: "gold" } },
    });
    const plan = await v1.ask("POST", "/plan", { body: { objects: team } });
    expect((plan.body.items as unknown as { action: string }[]).map((item) => item.action)).toEqual(
      Array(4).fill("unchanged"),
    );
    const nothing = await v1.ask("POST", "/apply", { body: { objects: team } });
    expect(nothing.status).toBe(200);
    expect(nothing.body["task"]).toBeUndefined();
    const update = await v1.ask("POST", "/plan", {
      body: { objects: [object("Tenant", "web", {}, { annotations: { note: "n" } })] },
    });
    expect(update.body.items).toMatchObject([
      {
        action: "update",
        changes: [
          { path: "metadata.annotations.note", op: "add", after: "n" },
          { path: "spec.comment", op: "remove", before: "shop" },
        ],
      },
    ]);
  });

  it("refuses all of it when one object is not right, and says which", async () => {
    const objects = [
      object("Tenant", "ok", {}),
      object("Tenant", "ok", {}),
      object("Tennant", "x", {}),
      object("Task", "UPID:x", {}),
      object("User", "joe@pve", { groups: ["none"] }),
      object("Tenant", "stale", {}, { resourceVersion: "3" }),
      object("Node", "n9", {}),
      { nonsense: true },
    ];
    const plan = await v1.ask("POST", "/plan", { body: { objects } });
    expect(plan.body["applicable"]).toBe(false);
    const refused = (plan.body.items as unknown as { action: string; problem?: { detail: string } }[]).filter(
      (item) => item.action === "refused",
    );
    expect(refused.map((item) => item.problem?.detail).join("\n")).toMatch(/did you mean 'Tenant'/);
    expect(refused).toHaveLength(7);
    const applied = await v1.ask("POST", "/apply", { body: { objects } });
    expect(applied.body).toMatchObject({
      status: 400,
      code: "request.invalid",
      data: { items: expect.any(Array) },
    });
    expect((await v1.ask("GET", "/tenants")).body.items).toEqual([]);
    expect((await v1.ask("POST", "/plan", { body: { objects: [] } })).status).toBe(400);
    expect((await v1.ask("POST", "/plan", { body: { objects: 7, more: 1 } })).body).toMatchObject({
      errors: { objects: "must be array", more: "is not a known field" },
    });
  });

  it("plans and applies with the rights of who asks", async () => {
    await v1.addUser("joe@pve");
    const applied = await v1.ask("POST", "/apply", {
      as: "joe@pve",
      body: { objects: [object("Tenant", "a", {})] },
    });
    expect(applied.body).toMatchObject({ status: 403, code: "access.denied" });
  });

  it("undoes what it did when a later object cannot be written any more", async () => {
    await v1.ask("POST", "/tenants", {
      body: object("Tenant", "web", { comment: "before" }, { labels: { a: "1" } }),
    });
    const items: ApplyArgs["items"] = [
      { kind: "Tenant", name: "web", spec: { comment: "after" }, labels: { a: "2" } },
      { kind: "Tenant", name: "new", spec: {} },
      { kind: "Tenant", name: "gone/child", spec: {} },
    ];
    const upid = await submitApplyTo(engine, plainItems)(
      { items },
      { actor: { userid: "root@pam", authid: "root@pam" }, requestId: "r" },
    );
    const ended = await engine.wait(upid);
    expect(ended.exitStatus).toContain("parent 'gone'");
    expect((await v1.ask("GET", "/tenants")).body.items).toMatchObject([
      { metadata: { name: "web", labels: { a: "1" } }, spec: { comment: "before" } },
    ]);
  });
});

interface World {
  readonly records: Records & { close(): Promise<void> };
  close(): Promise<void>;
}

describe("the operation applyobjects", () => {
  it("ends done or undone whatever happens to it", async () => {
    const args: ApplyArgs = {
      items: [
        { kind: "Role", name: "Viewer", spec: { privileges: ["Pool.Audit"] } },
        { kind: "Tenant", name: "web", spec: { comment: "after" }, labels: { tier: "gold" } },
        { kind: "User", name: "joe@pve", spec: { enable: true, expire: 0 } },
        {
          kind: "Binding",
          name: "Viewer@/pool/web",
          spec: {
            path: "/pool/web",
            role: "Viewer",
            subjects: [{ kind: "User", name: "joe@pve", propagate: true }],
          },
        },
      ],
    };
    const report = await testSaga<World>({
      prepare: async () => {
        const store = openSqliteStore({ path: ":memory:" });
        const records = await openRecords(store, { prefix: "/gpve/", log: silent });
        await records.transact((tx) =>
          tx.put(poolsDef, "web", { poolid: "web", comment: "before", vms: [], storage: [] }),
        );
        return {
          records,
          close: async () => {
            await records.close();
            await store.close();
          },
        };
      },
      define: (engine, { records }) => {
        const directory = new AccessDirectory({ records, clock: systemClock });
        engine.register(
          applyObjectsOperation({
            seals: plainItems,
            records,
            clock: systemClock,
            adapters: createKindAdapters({ board, ...quietKinds, ownNode: () => undefined }),
            accessOf: () => directory.view({ userid: "root@pam", authid: "root@pam" }),
            log: silent,
          }),
        );
        return { type: APPLY_OPERATION, args, resources: ["object/all"] };
      },
      check: ({ records }, outcome) => {
        const ids = <T>(def: CollectionDef<T>) =>
          records
            .collection(def)
            .list()
            .map((entry) => entry.id);
        const done = outcome === "done";
        expect(ids(rolesDef)).toEqual(done ? ["Viewer"] : []);
        expect(ids(usersDef)).toEqual(done ? ["joe@pve"] : []);
        expect(ids(aclDef)).toHaveLength(done ? 1 : 0);
        expect(records.collection(poolsDef).get("web")?.value.comment).toBe(done ? "after" : "before");
        expect(records.collection(metaCollection).get("Tenant/web")?.value.labels).toEqual(
          done ? { tier: "gold" } : undefined,
        );
      },
      cleanup: (world) => world.close(),
    });
    expect(report.runs).toBeGreaterThan(10);
  });
});
