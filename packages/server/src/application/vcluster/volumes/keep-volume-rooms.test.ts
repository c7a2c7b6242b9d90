// A storage quota that comes after the clusters: what those may have that were given no bound.
import { expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { Quota } from "@gpve/domain/quota/quota.ts";
import { quotasDef } from "../../quota/quota-records.ts";
import { putTenants, reportOf } from "../../../testing/quota-world.ts";
import { context, vclusterWorld } from "../../../testing/vcluster-world.ts";
import { KeepVolumeRooms } from "./keep-volume-rooms.ts";

const GIB = 2 ** 30;
const stored: Quota = { name: "b", tenant: "b", limits: { storage: 10 * GIB }, requests: {} };

async function world() {
  const server = await vclusterWorld();
  const { create, records, board, clock, quotas, clusters, key } = server;
  await create("demo", "b");
  /** What the node holds it to. */
  let bound: number | undefined;
  let refusal: AppError | undefined;
  const told: unknown[] = [];
  const keeper = new KeepVolumeRooms({
    records,
    board,
    clock,
    quotas: quotas.view,
    calls: {
      call: async (_node, _route, params) => {
        if (refusal !== undefined) throw refusal;
        const { quota } = params as { readonly quota: { readonly storage?: string } };
        told.push(quota.storage);
        const { storage } = quota;
        bound = storage === undefined ? undefined : Number(storage.replace("Gi", "")) * GIB;
        return { data: null } as never;
      },
    },
    log: { debug: () => undefined },
    newRequestId: () => "r",
  });
  /** The node says what its volumes have, and what waits, in GiB. */
  const look = async (has: number, waiting?: number) => {
    const worker = { name: "worker-1", running: true, cpus: 1, memoryBytes: 1, pods: 1 };
    const volumes = given({ bound, waiting: waiting && waiting * GIB });
    const vnodes = [{ ...worker, volumeBytes: has * GIB }];
    const row = { name: key("demo"), phase: "Running", power: "hot", volumes, vnodes } as const;
    board.accept({ ...reportOf([], clock.now()), vclusters: [row] });
    await keeper.look(new AbortController().signal);
    return bound === undefined ? undefined : bound / GIB;
  };
  const used = () => (quotas.view.usage(stored).limits.storage ?? 0) / GIB;
  return {
    ...server,
    look,
    used,
    told,
    record: () => clusters.require(key("demo")),
    bounds: () => putTenants(records, [stored], ["b"]),
    refuse: (err: AppError | undefined) => {
      refusal = err;
    },
  };
}

test("a cluster without a bound is held to what it has when a quota comes, and given what its claims wait for", async () => {
  const { look, used, bounds, create, told, record } = await world();
  expect(await look(3, 1)).toBeUndefined();
  expect(told).toEqual([]);
  await bounds();
  expect(await look(3)).toBe(3);
  expect(await look(3, 4)).toBe(7);
  expect(used()).toBe(7);
  // Nothing is told twice, and what it says of itself stays what it was.
  expect(await look(7)).toBe(7);
  expect(told).toEqual(["3Gi", "7Gi"]);
  expect(record().spec.volumeBytes).toBeUndefined();
  // The quota leaves 3.
  expect(await look(7, 4)).toBe(7);
  await expect(create("more", "b", { quota: { storage: "4Gi" } })).rejects.toThrow("used 7Gi, asked 4Gi");
  expect(await look(7, 2)).toBe(9);
});

test("what it had more than the quota leaves when that came stays, and no more comes", async () => {
  const { look, used, bounds } = await world();
  await bounds();
  expect(await look(12, 1)).toBe(12);
  expect(used()).toBe(12);
  expect(await look(12, 1)).toBe(12);
});

test("what it needs no more it gives back after a while, and all of it is its own again without a quota", async () => {
  const { look, used, bounds, clock, records, record } = await world();
  await bounds();
  expect(await look(6)).toBe(6);
  expect(await look(2)).toBe(6);
  await clock.advance(61_000);
  expect(await look(2)).toBe(2);
  expect(used()).toBe(2);
  await records.transact((tx) => tx.delete(quotasDef, "b"));
  expect(await look(2)).toBeUndefined();
  expect(record()).not.toHaveProperty("volumeRoom");
});

test("a node that was not reached is told again, and one that has lost its bound too", async () => {
  const { look, bounds, refuse, used } = await world();
  await bounds();
  refuse(new AppError("node.unavailable", "gone"));
  expect(await look(3)).toBeUndefined();
  // It counts all the same.
  expect(used()).toBe(3);
  refuse(undefined);
  expect(await look(3)).toBe(3);
});

test("a bound of its own ends it", async () => {
  const { look, used, bounds, clusters, key, record, told, asked } = await world();
  await bounds();
  await look(3);
  const may = { ...context("q"), access: { require: () => undefined } } as unknown as RequestContext;
  await clusters.setQuota(key("demo"), { workerQuota: { cpus: 8 } }, may);
  // Something else that is said of it leaves it as it is.
  expect(asked.at(-1)?.params).toMatchObject({ quota: { cpu: "8", storage: "3Gi" } });
  expect(record().volumeRoom).toBe(3 * GIB);
  await clusters.setQuota(key("demo"), { volumeBytes: 5 * GIB }, may);
  expect(record()).not.toHaveProperty("volumeRoom");
  expect(used()).toBe(5);
  told.length = 0;
  await look(3, 1);
  expect(told).toEqual([]);
});
