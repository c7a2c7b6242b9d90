import { afterEach, expect, test } from "vitest";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { ownEtcds, withStore } from "./with-store.ts";

const cluster: KeptCluster = {
  name: "demo",
  tenant: "shop",
  spec: readVirtualClusterSpec({ controlPlane: { backingStore: "etcd" } }),
  version: "1.36.4",
  network: 7,
  phase: "Provisioning",
  isWanted: false,
};
const { signal } = new AbortController();
const done: string[] = [];
afterEach(() => done.splice(0));

function world(isServed: boolean) {
  const sqlite = {
    isServed: () => false,
    serve: () => Promise.reject(new Error("not asked")),
    leave: () => Promise.reject(new Error("not asked")),
    socket: () => "",
  };
  return withStore(sqlite, {
    openEtcd: () => openSqliteStore({ path: ":memory:" }),
    isServed: () => isServed,
    serve: async () => void done.push("serve"),
    stop: async () => void done.push("stop"),
  });
}

test("an etcd that does not run is started for as long as it takes, and ends also when that fails", async () => {
  const open = world(false);
  expect(await open(cluster, signal, async () => done.push("use"))).toBe(2);
  expect(done.splice(0)).toEqual(["serve", "use", "stop"]);
  await expect(open(cluster, signal, () => Promise.reject(new Error("no room")))).rejects.toThrow("no room");
  expect(done).toEqual(["serve", "stop"]);
});

test("one that runs goes on", async () => {
  await world(true)(cluster, signal, async () => done.push("use"));
  expect(done).toEqual(["use"]);
});

test("an etcd has network and keys before it is started, and is served while its process lives", async () => {
  const process = { hasExited: false };
  const etcds = ownEtcds(
    {
      openEtcd: () => openSqliteStore({ path: ":memory:" }),
      provision: async () => done.push("provision"),
      serveStore: async () => void done.push("serve"),
      stop: async () => void done.push("stop"),
    },
    { get: (id) => (id === "demo.etcd" ? process : undefined) },
  );
  await etcds.serve(cluster, signal);
  await etcds.stop(cluster);
  expect(done).toEqual(["provision", "serve", "stop"]);
  expect([etcds.isServed(cluster), etcds.isServed({ ...cluster, name: "other" })]).toEqual([true, false]);
  process.hasExited = true;
  expect(etcds.isServed(cluster)).toBe(false);
});
