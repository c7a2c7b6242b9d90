import { describe, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { AgentUnreachable } from "@gpve/domain/node/agent-port.ts";
import { quietKinds } from "../../../testing/quiet-kinds.ts";
import { reportOf } from "../../../testing/quota-world.ts";
import { context, UPID, vclusterWorld as world } from "../../../testing/vcluster-world.ts";
import { cacheReader } from "../../v1/adapter.ts";
import { virtualClusterAdapter } from "../../v1/adapters/virtual-cluster.ts";

describe("virtual clusters that are deleted", () => {
  test("with persistent volumes go only where it is said that those are lost", async () => {
    const { create, clusters, board, records, key, names, asked, hasVolumes } = await world();
    await create("demo", "b");
    const adapter = virtualClusterAdapter({ ...quietKinds, board, vclusters: clusters });
    const { act } = adapter;
    const previous = adapter.get(cacheReader(records), key("demo"));
    if (act === undefined || previous === undefined) throw new Error("not there");
    const remove = (force: boolean) => act.remove({ name: "demo", previous, ctx: context("d"), force });
    // Made a moment ago: its node has told of none.
    hasVolumes("pvc-1", "pvc-2");
    await expect(remove(false)).rejects.toThrow(/'demo' has 2 persistent volumes in use.*--volumes/);
    expect([names(), asked.length]).toEqual([["demo"], 1]);
    expect(clusters.require(key("demo"))).not.toHaveProperty("isLeaving");
    await remove(true);
    expect([names(), asked.at(-1)?.params]).toEqual([[], expect.objectContaining({ force: true })]);
  });

  test("are not refused for volumes that are gone, and their node looks again", async () => {
    const { create, clusters, board, clock, names, asked } = await world();
    await create("demo");
    const vnodes = [{ name: "worker-1", running: true, cpus: 1, memoryBytes: 4, pods: 0, volumes: 2 }];
    const vclusters = [{ name: "demo", phase: "Running", power: "hot", vnodes } as const];
    board.accept({ ...reportOf([], clock.now()), vclusters });
    await clusters.remove("demo", context("d"));
    expect([names(), asked.at(-1)?.params]).toEqual([[], expect.not.objectContaining({ force: true })]);
  });

  test("go to the end also where whoever asked hangs up in the midst of it", async () => {
    const { create, clusters, names, key, ends } = await world();
    await create("demo", "b");
    const client = new AbortController();
    const gone = Promise.withResolvers<void>();
    ends(async () => {
      client.abort(new AppError("operation.cancelled", "the client closed the connection"));
      await gone.promise;
    }, 0);
    const asking = { ...context("d"), signal: client.signal };
    await expect(clusters.remove(key("demo"), asking)).rejects.toThrow("closed the connection");
    expect([names(), clusters.require(key("demo")).isLeaving]).toEqual([["demo"], true]);
    gone.resolve();
    await expect.poll(names).toEqual([]);
  });

  test("stay as they are where their node refuses, and go on going where that is not known", async () => {
    const { create, clusters, key, answers } = await world();
    await create("demo", "b");
    const failing = (err: Error) => {
      let calls = 0;
      answers(() => {
        if (calls++ > 0) throw err;
        return UPID;
      });
      return expect(clusters.remove(key("demo"), context("d"))).rejects.toThrow(err.message);
    };
    await failing(new AppError("object.conflict", "it has a volume"));
    expect(clusters.require(key("demo"))).not.toHaveProperty("isLeaving");
    await failing(new AgentUnreachable(596, "Connection timed out"));
    expect(clusters.require(key("demo")).isLeaving).toBe(true);
  });

  test("on a node of an older version are judged by what that has told", async () => {
    const { create, clusters, board, clock, names, asked, answers } = await world();
    await create("demo");
    const vnodes = [{ name: "worker-1", running: true, cpus: 1, memoryBytes: 4, pods: 0, volumes: 1 }];
    const vclusters = [{ name: "demo", phase: "Running", power: "hot", vnodes } as const];
    board.accept({ ...reportOf([], clock.now()), vclusters });
    let calls = 0;
    answers(() => {
      if (calls++ === 0) throw new AppError("feature.unsupported", "this node offers no such route");
      return UPID;
    });
    await expect(clusters.remove("demo", context("d"))).rejects.toThrow("1 persistent volume in use");
    calls = 0;
    await clusters.remove("demo", context("d"), true);
    expect([names(), asked.at(-1)?.params]).toEqual([[], expect.not.objectContaining({ force: true })]);
  });
});
