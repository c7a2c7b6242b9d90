import type { Records } from "@gpve/store/records/port.ts";
import { expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { taskRecordId, taskRecords } from "@gpve/domain/task/task-record.ts";
import type { FollowedTask } from "@gpve/domain/vcluster/backup/followed-task.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { quietWatch } from "../../testing/quiet-kinds.ts";
import { UPID, vclusterWorld } from "../../testing/vcluster-world.ts";
import { taskEnd } from "../task/task-end.ts";
import { awaitFollowed, followTask, KeepFollowed, settledRecord } from "./follow-task.ts";

const taskEndOf = (records: Records) => (upid: string, signal: AbortSignal) => taskEnd(records, upid, signal);

/** With three workers, in place of which one with none is put. */
async function world(asked: Partial<FollowedTask>) {
  const all = await vclusterWorld();
  const { records, clusters, create, key } = all;
  await create("demo", "b", { workerNodes: { count: 3 } });
  const record = () => clusters.require(key("demo"));
  const follows = { at: all.clock.now(), ...asked };
  const { spec } = record();
  const smaller = { ...record(), spec: { ...spec, workers: 0 }, follows: { ...follows, replaced: spec } };
  await records.transact((tx) => tx.put(vclusterCollection, key("demo"), smaller));
  const ended = (exitstatus: string) =>
    records.transact((tx) =>
      tx.put(taskRecords, taskRecordId(UPID) ?? "", { upid: UPID, endtime: 1, exitstatus }),
    );
  const seen = () => [record().spec.workers, record().follows?.upid];
  return { ...all, record, ended, seen };
}

test.each([
  ["OK", 0],
  ["WARNINGS: 1", 0],
  ["stopped by user", 3],
])(
  "a record follows a task that ends with '%s' also where who was asked is gone",
  async (status, workers) => {
    const { records, clock, ended, seen } = await world({ upid: UPID });
    const stop = new AbortController();
    const keeper = new KeepFollowed({
      ...quietWatch,
      records,
      clock,
      taskEnd: taskEndOf(records),
    });
    keeper.look(stop.signal);
    keeper.look(stop.signal);
    expect(seen()).toEqual([0, UPID]);
    await ended(status);
    await expect.poll(seen).toEqual([workers, undefined]);
    stop.abort();
  },
);

test("whoever needs it sooner sees by the task itself what came of it", async () => {
  const { records, record, ended } = await world({ upid: UPID, at: 0 });
  const settled = () => records.transact((tx) => settledRecord(tx, record(), 1));
  await expect(settled()).rejects.toThrow("wait for the end of that");
  await ended("stopped by user");
  expect(await settled()).toMatchObject({ spec: { workers: 3 } });
});

test("a record says what its cluster runs when an upgrade of it has ended well", async () => {
  const { records, clusters, record, key, clock } = await world({ at: 0 });
  const follow = async (end: () => Promise<void>) => {
    const follows = { upid: UPID, at: clock.now(), kubernetesVersion: "1.36" };
    await records.transact((tx) => tx.put(vclusterCollection, key("demo"), { ...record(), follows }));
    const settled = records.transact((tx) => settledRecord(tx, record(), clock.now()));
    await expect(settled).rejects.toThrow("virtual cluster 'demo' is being upgraded");
    await followTask({ records, taskEnd: end }, key("demo"), UPID, new AbortController().signal);
    return [clusters.require(key("demo")).spec.kubernetesVersion, record().follows];
  };
  expect(await follow(() => Promise.reject(new AppError("operation.failed", "no")))).toEqual(["", undefined]);
  expect(await follow(() => Promise.resolve())).toEqual(["1.36", undefined]);
});

test("what is not known to have failed is not taken back", async () => {
  const { records, key, seen } = await world({ upid: UPID, at: 0 });
  const { signal } = new AbortController();
  const taskEnd = () => Promise.reject(new Error("the store is away"));
  await expect(followTask({ records, taskEnd }, key("demo"), UPID, signal)).rejects.toThrow("is away");
  expect(seen()).toEqual([0, UPID]);
});

test("whoever comes a moment too early waits for what the records are told, and not for long", async () => {
  const { records, record, ended, clock } = await world({ upid: UPID, at: 0 });
  const deps = { records, clock, taskEnd: taskEndOf(records) };
  const { signal } = new AbortController();
  const early = awaitFollowed(deps, record(), signal);
  await clock.advance(5_000);
  await early;
  expect(record().follows?.upid).toBe(UPID);
  const again = awaitFollowed(deps, record(), signal);
  await ended("OK");
  await again;
  expect(record()).not.toHaveProperty("follows");
});

test.each([
  ["no node has said that it has begun", { at: 1_000 }],
  ["there is no record any more", { at: 1_000, upid: UPID }],
])("one of which %s is not waited for without end", async (_why, follows) => {
  const { records, record, key } = await world(follows);
  const settled = (now: number) => records.transact((tx) => settledRecord(tx, record(), now));
  await expect(settled(120_000)).rejects.toThrow("a backup is being put in place of virtual cluster 'demo'");
  const now = await settled(130_000);
  expect([now.follows, now.spec.workers]).toEqual([undefined, 3]);
  const spec = { ...record().spec, workers: 4 };
  await records.transact((tx) => tx.put(vclusterCollection, key("demo"), { ...record(), spec }));
  expect((await settled(130_000)).spec.workers).toBe(4);
});

test.each([
  ["its node was never heard of again", {}],
  ["its task is known to nobody", { upid: UPID }],
])("a record follows nothing any more when %s", async (_why, follows) => {
  const { records, clock, seen } = await world(follows);
  const stop = new AbortController();
  const taskEnd = (_upid: string, signal: AbortSignal) =>
    new Promise<void>((_done, left) => signal.addEventListener("abort", left));
  const keeper = new KeepFollowed({ ...quietWatch, records, clock, taskEnd });
  keeper.look(stop.signal);
  expect(seen()[0]).toBe(0);
  await clock.advance(700_000);
  keeper.look(stop.signal);
  await expect.poll(seen).toEqual([3, undefined]);
  stop.abort();
});
