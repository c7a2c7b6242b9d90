import { AppError } from "@gpve/contracts/errors.ts";
import { AgentUnreachable } from "@gpve/domain/node/agent-port.ts";
import { scaleCollection } from "@gpve/domain/vcluster/vnode/cluster-scale.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { expect, test } from "vitest";
import { context, UPID, vclusterWorld } from "../../../testing/vcluster-world.ts";

/** A cluster of one worker, and how many of it count. */
async function world() {
  const all = await vclusterWorld();
  const { create, clusters, records, key } = all;
  await create("demo", "b", { workerNodes: { count: 1 } });
  const demo = key("demo");
  const scale = (count: number, requestId = "s") =>
    clusters.scale(demo, { count }, context(requestId), requestId);
  const counted = () => clusters.require(demo).spec.workers;
  const pending = () =>
    records
      .collection(scaleCollection)
      .list()
      .map(({ value }) => value);
  return { ...all, demo, scale, counted, pending };
}

const late = new AppError("operation.failed", "worker-2 is not Ready");

test("workers that do not come are given up also when the server that saw to it is gone", async () => {
  const { scale, counted, pending, ends, leading } = await world();
  const end = Promise.withResolvers<void>();
  ends(() => end.promise, 1);
  await scale(3);
  const first = new AbortController();
  leading(first.signal)();
  first.abort(new Error("killed"));
  expect([counted(), pending()]).toMatchObject([3, [{ from: 1, to: 3, told: [{ node: "n1", upid: UPID }] }]]);
  end.reject(late);
  leading()();
  await expect.poll(() => [counted(), pending()]).toEqual([1, []]);
});

test("what ended well is forgotten, and so is a change of what is not so any more", async () => {
  const { scale, counted, pending, ends, leading, records, demo } = await world();
  const look = leading();
  await scale(2);
  look();
  await expect.poll(pending).toEqual([]);
  expect(counted()).toBe(2);
  const never = Promise.withResolvers<void>();
  ends(() => never.promise, 2);
  await scale(4);
  look();
  await records.transact((tx) => tx.delete(vclusterCollection, demo));
  await expect
    .poll(() => {
      look();
      return pending();
    })
    .toEqual([]);
});

test("a node that may not have been told is told after a while, as the same request", async () => {
  const { scale, counted, pending, answers, asked, clock, leading } = await world();
  const look = leading();
  answers(() => {
    throw new AgentUnreachable(596, "Connection timed out");
  });
  await expect(scale(3)).rejects.toThrow("timed out");
  expect([counted(), pending()]).toMatchObject([3, [{ told: [] }]]);
  answers(() => UPID);
  const before = asked.length;
  look();
  await clock.advance(100_000);
  look();
  expect(asked.length).toBe(before);
  await clock.advance(30_000);
  look();
  await expect.poll(pending).toEqual([]);
  expect(asked.slice(before)).toMatchObject([{ params: { workers: 3, requestId: "s" } }]);
  expect(counted()).toBe(3);
});

test("one that refuses then has as many as before, which counts", async () => {
  const { scale, counted, pending, answers, ends, clock, leading } = await world();
  const look = leading();
  answers(() => {
    throw new AgentUnreachable(596, "Connection timed out");
  });
  await expect(scale(3)).rejects.toThrow("timed out");
  ends(async () => undefined, 1);
  let calls = 0;
  answers(() => {
    if (calls++ === 0) throw new AppError("object.conflict", "it is Stopped");
    return UPID;
  });
  look();
  await clock.advance(130_000);
  look();
  await expect.poll(() => [counted(), pending()]).toEqual([1, []]);
});

test("where a node cannot be asked it counts until that can be done", async () => {
  const { scale, counted, pending, answers, ends, clock, leading } = await world();
  const look = leading();
  ends(() => Promise.reject(late), 1);
  await scale(3);
  let asks = 0;
  answers(() => {
    asks++;
    throw new AppError("node.unavailable", "it is away");
  });
  look();
  await expect.poll(() => asks).toBe(1);
  await new Promise((resolve) => setImmediate(resolve));
  look();
  expect([asks, counted()]).toEqual([1, 3]);
  answers(() => UPID);
  await clock.advance(31_000);
  look();
  await expect.poll(() => [counted(), pending()]).toEqual([1, []]);
});

test("a second change that its node refuses leaves the first as it was", async () => {
  const { scale, counted, pending, answers, ends, leading } = await world();
  const end = Promise.withResolvers<void>();
  ends(() => end.promise, 1);
  await scale(3, "first");
  answers(() => {
    throw new AppError("object.conflict", "it is Scaling");
  });
  await expect(scale(5, "second")).rejects.toThrow("it is Scaling");
  expect([counted(), pending()]).toMatchObject([3, [{ to: 3, requestId: "first" }]]);
  answers(() => UPID);
  end.reject(late);
  leading()();
  await expect.poll(() => [counted(), pending()]).toEqual([1, []]);
});
