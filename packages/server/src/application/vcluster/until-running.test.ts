import { expect, onTestFinished, test } from "vitest";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { vclusterCollection, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { reportOf } from "../../testing/quota-world.ts";
import { untilRunning } from "./until-running.ts";
import { context, vclusterWorld as world } from "../../testing/vcluster-world.ts";

test("clusters are waited for until they run, and come with a kubeconfig where one may be had", async () => {
  const { create, clusters, board, clock, answers } = await world();
  await create("demo");
  answers(() => ({ id: "1", kubeconfig: "text", expiresAt: 0 }));
  const reported = (phase: "Initializing" | "Running" | "Failed", message?: string) =>
    board.accept({
      ...reportOf([], clock.now()),
      vclusters: [{ name: "demo", phase, power: "hot", ...given({ message }) }],
    });
  reported("Initializing");
  const ready = clusters.ready("demo", context("w"));
  await clock.advance(500);
  reported("Running");
  await clock.advance(500);
  expect(await ready).toMatchObject({ kubeconfig: "text", kubeconfigId: "1" });
  answers(() => {
    throw new AppError("access.denied", "no");
  });
  expect(await clusters.ready("demo", context("w"))).toEqual({});
  reported("Failed", "no bridge");
  await expect(clusters.ready("demo", context("w"))).rejects.toThrow("is Failed: no bridge");
});

test("clusters are waited for no longer than somebody works on them", async () => {
  const { create, clusters, records, board, clock } = await world();
  await create("demo");
  board.accept({
    ...reportOf([], clock.now()),
    vclusters: [{ name: "demo", phase: "Initializing", power: "hot" }],
  });
  const waited = clusters.ready("demo", context("w")).catch(messageOf);
  await clock.advance(500);
  await records.transact((tx) => tx.delete(vclusterCollection, "demo"));
  await clock.advance(500);
  expect(await waited).toContain("'demo' was deleted before it ran");

  await create("other");
  const silent = clusters.ready("other", context("w")).catch(messageOf);
  onTestFinished(board.start());
  await clock.advance(60_000);
  await clock.advance(70_000);
  expect(await silent).toContain("node n1, which is to run it, says nothing for 120 s");
});

test("of several nodes each has a silence of its own, and none is blamed for another's", async () => {
  const away = new Set<string>();
  const board = {
    get: (node: string) => ({
      health: away.has(node) ? "offline" : "online",
      report: { vclusters: [{ name: "demo", phase: "Initializing", power: "hot" }] },
    }),
  } as unknown as NodeBoard;
  const clock = new FakeClock(1_000_000);
  const nodes = ["n1", "n2"].map((node) => ({ node, address: "192.0.2.1" }));
  const made = { name: "demo", tenant: "default", node: "n1", madeBy: "r", spec: readVirtualClusterSpec({}) };
  const record: VirtualClusterRecord = { ...made, spread: { network: 1, nodes } };
  const records = { collection: () => ({ get: () => ({ value: record }) }) } as unknown as Records;
  let told: string | undefined;
  const waited = untilRunning({ records, board, clock }, record, new AbortController().signal).catch(
    (err: unknown) => {
      told = messageOf(err);
    },
  );
  // One after the other, with never a moment in which both are there.
  for (const [gone, back] of [
    ["n1", "n2"],
    ["n2", "n1"],
    ["n1", "n2"],
  ] as const) {
    away.add(gone);
    away.delete(back);
    await clock.advance(50_000);
  }
  expect(told).toBeUndefined();
  away.add("n2");
  await clock.advance(60_000);
  away.delete("n1");
  await clock.advance(70_000);
  await waited;
  expect(told).toContain("node n2, which is to run it, says nothing for 120 s");
});
