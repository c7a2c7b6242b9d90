import { expect, onTestFinished, test } from "vitest";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { reportOf } from "../../testing/quota-world.ts";
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
