import { describe, expect, test } from "vitest";
import { quietKinds } from "../../testing/quiet-kinds.ts";
import { context, UPID, vclusterWorld as world } from "../../testing/vcluster-world.ts";
import { cacheReader } from "../v1/adapter.ts";
import { virtualClusterAdapter } from "../v1/adapters/virtual-cluster.ts";

describe("virtual clusters that sleep", () => {
  test("change when they sleep, at their node and in the store", async () => {
    const { create, clusters, asked } = await world();
    await create("demo");
    const policy = { mode: "warm", afterIdleSeconds: 60, keepAwake: ["jobs"] } as const;
    await clusters.setSleep("demo", policy, context("p"));
    expect(clusters.require("demo").spec.sleep).toEqual(policy);
    expect(await clusters.sleep("demo", "warm", context("s"), "once")).toBe(UPID);
    expect(asked.slice(1).map(({ params }) => params)).toEqual([
      { vcluster: "demo", tenant: "default", ...policy },
      { vcluster: "demo", tenant: "default", mode: "warm", requestId: "once" },
    ]);
  });

  test("that were made asleep are told anew when they sleep, and no other becomes one of them", async () => {
    const { create, clusters, board, records, key, asked } = await world();
    await create("idle", "b", { sleep: { fromStart: true } });
    const adapter = virtualClusterAdapter({ ...quietKinds, board, vclusters: clusters });
    const change = async (name: string, sleep: object) => {
      const previous = adapter.get(cacheReader(records), key(name));
      if (adapter.act === undefined || previous === undefined) throw new Error("not there");
      const spec = { ...previous.spec, sleep };
      await adapter.act.change({ name, namespace: "b", spec, previous, ctx: context("c") });
    };
    await change("idle", { mode: "cold", afterIdleSeconds: 60, fromStart: true });
    expect(asked.at(-1)?.params).toEqual({
      vcluster: key("idle"),
      tenant: "b",
      mode: "cold",
      afterIdleSeconds: 60,
    });
    expect(clusters.require(key("idle")).spec.sleep).toMatchObject({ afterIdleSeconds: 60, fromStart: true });
    await create("demo", "b");
    await expect(change("demo", { fromStart: true })).rejects.toThrow("spec.sleep.fromStart: says how");
  });

  test("are woken for as long as somebody says", async () => {
    const { create, clusters, asked } = await world();
    await create("demo");
    expect(await clusters.work("demo", "wake", context("w"), "once", { forSeconds: 60 })).toBe(UPID);
    expect(asked.at(-1)?.params).toMatchObject({ vcluster: "demo", forSeconds: 60 });
    await clusters.work("demo", "wake", context("w"), "twice");
    expect(asked.at(-1)?.params).not.toHaveProperty("forSeconds");
  });
});
