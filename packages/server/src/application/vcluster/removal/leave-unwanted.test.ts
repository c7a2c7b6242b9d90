import { describe, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { leftClusterCollection } from "@gpve/domain/vcluster/standby/left-cluster.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { context, UPID, vclusterWorld } from "../../../testing/vcluster-world.ts";

/** Something happens before the node has taken the cluster that it is asked to make. */
async function world() {
  const all = await vclusterWorld();
  const { answers, records, asked, key } = all;
  const during = (happens: () => Promise<unknown>): void =>
    answers(async () => {
      answers(() => UPID);
      await happens();
      return UPID;
    });
  const record = () => records.collection(vclusterCollection).get(key("demo"))?.value;
  const verbs = () => asked.map(({ route }) => route.split(" ", 1)[0]);
  return { ...all, during, record, verbs };
}

describe("virtual clusters that are deleted while their node is told of them", () => {
  test("are not left there, where nobody would know of them", async () => {
    const { create, clusters, key, names, during, verbs, asked, records } = await world();
    during(() => clusters.remove(key("demo"), context("d")));
    await expect(create("demo", "b")).rejects.toThrow("'demo' was deleted while it was made");
    // The first found nothing there.
    expect(verbs()).toEqual(["DELETE", "POST", "DELETE"]);
    expect(asked.at(-1)?.params).toMatchObject({ vcluster: key("demo"), tenant: "b" });
    expect([names(), records.collection(leftClusterCollection).list()]).toEqual([[], []]);
  });

  test("go later where their node does not answer any more", async () => {
    const { create, clusters, key, during, answers, records } = await world();
    during(async () => {
      await clusters.remove(key("demo"), context("d"));
      let calls = 0;
      answers(() => {
        if (calls++ === 0) throw new AppError("node.unavailable", "it is away");
        return UPID;
      });
    });
    await expect(create("demo", "b")).rejects.toThrow("was deleted while it was made");
    const left = records.collection(leftClusterCollection).list();
    expect(left.map(({ value }) => value)).toEqual([{ node: "n1", key: key("demo"), tenant: "b" }]);
  });

  test("are asked for again by whoever told it last, also while they are being deleted", async () => {
    const { create, during, record, verbs, key, records } = await world();
    during(() =>
      records.transact((tx) => {
        const now = tx.get(vclusterCollection, key("demo"))?.value;
        if (now !== undefined) tx.put(vclusterCollection, key("demo"), { ...now, isLeaving: true });
      }),
    );
    await expect(create("demo", "b")).rejects.toThrow("was deleted while it was made");
    // That is for who deletes it.
    expect([verbs(), record()?.isLeaving]).toEqual([["POST", "DELETE"], true]);
  });

  test("are not taken from whoever has made one of that name since", async () => {
    const { create, during, record, verbs, key, records } = await world();
    during(() =>
      records.transact((tx) => {
        const now = tx.get(vclusterCollection, key("demo"))?.value;
        if (now !== undefined) tx.put(vclusterCollection, key("demo"), { ...now, madeBy: "other" });
      }),
    );
    await expect(create("demo", "b")).rejects.toThrow("was deleted while it was made");
    expect([verbs(), record()?.madeBy]).toEqual([["POST"], "other"]);
  });
});

test("virtual clusters are told to their node to the end, whoever hangs up once they are written down", async () => {
  const { clusters, names, answers } = await vclusterWorld();
  const client = new AbortController();
  answers(() => {
    client.abort(new AppError("operation.cancelled", "the client closed the connection"));
    return UPID;
  });
  const asking = { ...context("r"), signal: client.signal };
  expect(await clusters.create({ name: "demo", namespace: "b", spec: {} }, asking)).toBe(UPID);
  expect(names()).toEqual(["demo"]);
});
