import { expect, test } from "vitest";
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import { placeCollection } from "@gpve/domain/vcluster/cluster-places.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { quietLog } from "../../testing/agent-face.ts";
import { openQuotaServer } from "../../testing/quota-world.ts";
import { KeepPlaces } from "./keep-places.ts";
import { passingServer, replicaTargets } from "./replicas/replica-nodes.ts";

const { signal } = new AbortController();
const demo = { name: "demo", tenant: "shop", spec: readVirtualClusterSpec({}), madeBy: "" };

async function world() {
  const clock = new FakeClock();
  const node = { node: "n1", call: () => Promise.reject(new Error("not asked")) };
  const server = await openQuotaServer(openSqliteStore({ path: ":memory:" }), { owner: "s1", clock, node });
  const { records } = server;
  const addresses: Record<string, string> = { n1: "10.0.0.1", n2: "10.0.0.2" };
  const view = (name: string): NodeView | undefined => {
    const row = { name: "demo", phase: "Running", power: "cold", endpoint: "https://10.9.9.9:16446" };
    const report = { vclusters: [row] };
    return addresses[name] === undefined
      ? undefined
      : ({ node: name, health: "online", address: addresses[name], report } as unknown as NodeView);
  };
  const board: NodeBoard = {
    list: () => Object.keys(addresses).flatMap((name) => view(name) ?? []),
    get: view,
    generation: () => 1,
  };
  const places = new KeepPlaces({ records, board, clock, log: quietLog });
  const put = (at: string) =>
    records.transact((tx) => tx.put(vclusterCollection, "demo", { ...demo, node: at }));
  const look = async () => {
    await places.look(signal);
    return records.collection(placeCollection).list();
  };
  return { clock, records, addresses, board, places, put, look, close: () => server.close() };
}

test("says of each cluster which node has it and where that is, and nothing of those that are gone", async () => {
  const { records, addresses, put, look, close } = await world();
  await put("n1");
  const serverName = "demo.shop.vc.gpve";
  const place = { serverName, node: "n1", address: "10.0.0.1" };
  expect(await look()).toMatchObject([{ id: serverName, value: place, version: 1 }]);
  expect(await look()).toMatchObject([{ version: 1 }]);
  await put("n2");
  expect(await look()).toMatchObject([{ value: { ...place, node: "n2", address: "10.0.0.2" }, version: 2 }]);
  addresses["n2"] = "10.0.0.9";
  expect(await look()).toMatchObject([{ value: { address: "10.0.0.9" } }]);
  await records.transact((tx) => tx.delete(vclusterCollection, "demo"));
  expect(await look()).toEqual([]);
  await put("n1");
  delete addresses["n2"];
  expect(await look()).toEqual([]);
  await close();
});

test("looks again and again until it is told to end", async () => {
  const { clock, records, places, put, close } = await world();
  await put("n1");
  const stop = new AbortController();
  const running = places.run(stop.signal);
  await expect.poll(() => records.collection(placeCollection).list().length).toBe(1);
  await put("n2");
  await expect
    .poll(async () => {
      await clock.advance(1_000);
      return records.collection(placeCollection).list()[0]?.value.node;
    })
    .toBe("n2");
  stop.abort();
  await running;
  await close();
});

test("servers pass on to the node that the record names, at the port that it tells", async () => {
  const { board, close } = await world();
  const record = { ...demo, node: "n2" };
  expect(replicaTargets(board, [record], "demo.shop.vc.gpve")).toEqual([
    { host: "10.0.0.2", port: 16_446, isThere: expect.any(Function) },
  ]);
  expect(replicaTargets(board, [record], "demo.other.vc.gpve")).toBeUndefined();
  await close();
});

test("kubeconfigs name the servers where another node can go on with it, else by a name that others know", async () => {
  const { board, addresses, close } = await world();
  const record = { ...demo, node: "n2", spec: { ...demo.spec, backingStore: "external" as const } };
  expect(passingServer(board, demo, "127.0.0.1:8006")).toBe("https://127.0.0.1:8006");
  expect(passingServer(board, record, "gpve.example.org:8006")).toBe("https://gpve.example.org:8006");
  for (const host of ["127.0.0.1:8006", "localhost", "[::1]:8006", "bad host", undefined])
    expect(passingServer(board, record, host)).toBeUndefined();
  const to = (exposure: "node" | "server") => ({ ...demo, spec: { ...demo.spec, exposure } });
  expect(passingServer(board, to("node"), "gpve.example.org:8006")).toBeUndefined();
  delete addresses["n1"];
  expect(passingServer(board, to("server"), "127.0.0.1:8006")).toBe("https://127.0.0.1:8006");
  for (const each of [record, demo])
    expect(passingServer(board, each, "gpve.example.org:8006")).toBeUndefined();
  await close();
});
