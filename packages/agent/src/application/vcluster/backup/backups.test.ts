import { describe, expect, test } from "vitest";
import { given } from "@gpve/contracts/given.ts";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type { StorageDefinition } from "@gpve/domain/storage/definition.ts";
import type { StoragePlugin, VolumeInfo } from "@gpve/domain/storage/plugin.ts";
import type { ClusterSaves } from "@gpve/domain/vcluster/backup/cluster-saves.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { testSaga } from "@gpve/kit/testing/saga-harness.ts";
import { FakeClusterHost } from "../../../testing/fake-cluster-host.ts";
import { FakeClusterSaves } from "../../../testing/fake-cluster-saves.ts";
import { FakeVnodeHost } from "../../../testing/fake-vnode-host.ts";
import { ClusterPhases } from "../cluster-phases.ts";
import { ArchivePlaces } from "./archive-places.ts";
import { BACKUP_CLUSTER, backupClusterOperation } from "./backup-operation.ts";
import { RESTORE_OVER_CLUSTER, restoreOverOperation } from "./restore-over-operation.ts";

const spec = readVirtualClusterSpec({});
const demo: KeptCluster = {
  name: "demo",
  tenant: "shop",
  spec,
  version: "1.36.4",
  network: 7,
  phase: "Running",
  isWanted: true,
};
const old = (day: number): string => `vzdump-vc-demo_shop-2020_01_0${day}-00_00_00.tar.gz`;

/** A storage whose files are those of the saves. */
function places(saves: FakeClusterSaves, keep?: string): ArchivePlaces {
  const notes = new Map<string, string>();
  const plugin = {
    storage: "local",
    backupFolder: () => "/dump",
    file: async (volname: string) => `/dump/${volname.slice("backup/".length)}`,
    list: async () =>
      [...saves.archives.keys()].map((path): VolumeInfo => {
        const volname = `backup/${path.slice("/dump/".length)}`;
        const noted = notes.get(volname);
        return {
          volname,
          content: "backup",
          format: "tar.gz",
          size: 10,
          used: 10,
          ctime: 1,
          ...given({ notes: noted }),
        };
      }),
    free: async (volname: string) => saves.archives.delete(`/dump/${volname.slice("backup/".length)}`),
    setNotes: async (volname: string, text: string) => void notes.set(volname, text),
    setProtected: async () => undefined,
  } as unknown as StoragePlugin;
  const definition = {
    storage: "local",
    type: "dir",
    options: { content: "backup", ...given({ "prune-backups": keep }) },
  } as unknown as StorageDefinition;
  const open = async () => ({ plugin, definition });
  return new ArchivePlaces({ open, definitions: () => [definition], isEnabled: () => true }, silentLogger);
}

function world(cluster: KeptCluster = demo, keep?: string) {
  const host = new FakeClusterHost();
  host.save(cluster);
  host.running.add("demo");
  const saves = new FakeClusterSaves();
  saves.contents.set("demo", "now");
  const notes = new Map<string, GuestMove>();
  const asked: string[] = [];
  const peers = {
    clusterVolumes: async ({ to }: GuestMove) => {
      asked.push(to.node);
      return { size: 0, body: (async function* () {})(), close: async () => undefined };
    },
  };
  return {
    host,
    saves,
    phases: new ClusterPhases(host, () => undefined),
    places: places(saves, keep),
    peers,
    asked,
    notes,
    findMove: async (id: string) => notes.get(id),
  };
}

async function ended<A, S extends object>(operation: OperationDefinition<A, S>, type: string, args: object) {
  const { engine } = testEngine();
  engine.register(operation);
  await engine.start();
  const { operation: begun } = await engine.submit({
    type,
    resources: ["vcluster/demo"],
    args,
    subject: "demo",
    actor: "joe@pve",
    requestId: "r",
  });
  return engine.wait(begun.id);
}

describe("backup of a virtual cluster", () => {
  test("is an archive on the storage, named and noted by what it is", async () => {
    const all = world();
    const { state } = await ended(backupClusterOperation(all), BACKUP_CLUSTER, {
      name: "demo",
      storage: "local",
    });
    expect(state).toBe("done");
    const [row] = await all.places.list({ name: "demo", tenant: "shop" });
    expect(row).toMatchObject({
      volid: expect.stringMatching(/^local:backup\/vzdump-vc-demo_shop-[\d_-]+\.tar\.gz$/),
      notes: expect.stringContaining("virtual cluster shop/demo, Kubernetes 1.36.4"),
    });
    expect(await all.places.list({ name: "demo", tenant: "other" })).toEqual([]);
    expect(await all.saves.manifest(await all.places.file(row?.volid ?? ""))).toMatchObject({ name: "demo" });
  });

  test("asks other nodes for volumes by the notes of a server, and by no others", async () => {
    const all = world();
    const end = (node: string) => ({ node, address: "192.0.2.1", port: 1, fingerprints: [] });
    const note = { vmid: 0, from: end("n1"), at: 0, vcluster: "demo" };
    all.notes.set("good", { ...note, id: "good", to: end("n2"), purpose: "volumes" });
    all.notes.set("bad", { ...note, id: "bad", to: end("n3"), purpose: "vcluster" });
    all.notes.set("other", { ...note, id: "other", to: end("n4"), purpose: "volumes", vcluster: "x" });
    const said: string[] = [];
    const saves: Pick<ClusterSaves, "pack" | "discard"> = {
      discard: (path) => all.saves.discard(path),
      pack: async (_cluster, _path, { others = [] }) => {
        for (const { node, open } of others)
          await open(new AbortController().signal).catch((err: unknown) =>
            said.push(`${node}: ${String(err)}`),
          );
        throw new Error("enough");
      },
    };
    const volumesFrom = ["good", "bad", "other", "none"].map((moveId) => ({ node: moveId, moveId }));
    const args = { name: "demo", storage: "local", volumesFrom };
    expect((await ended(backupClusterOperation({ ...all, saves }), BACKUP_CLUSTER, args)).error).toContain(
      "enough",
    );
    expect(all.asked).toEqual(["n2"]);
    expect(said.map((each) => each.split(":", 1)[0])).toEqual(["bad", "other", "none"]);
  });

  test("is named as its tenant calls it, wherever its node keeps it", async () => {
    const all = world();
    const { host, saves } = all;
    await host.remove("demo");
    host.save({ ...demo, name: "0-demo-x", called: "demo" });
    saves.contents.set("0-demo-x", "of shop");
    await ended(backupClusterOperation(all), BACKUP_CLUSTER, { name: "0-demo-x", storage: "local" });
    const [row] = await all.places.list({ name: "demo", tenant: "shop" });
    expect(row).toMatchObject({
      volid: expect.stringMatching(/^local:backup\/vzdump-vc-demo_shop-/),
      notes: expect.stringContaining("virtual cluster shop/demo,"),
    });
    expect(await saves.manifest(await all.places.file(row?.volid ?? ""))).toMatchObject({ name: "demo" });
  });

  test("removes those that the storage does not keep, and none of others", async () => {
    const all = world(demo, "keep-last=2");
    for (const day of [1, 2, 3]) await all.saves.pack(demo, `/dump/${old(day)}`);
    await all.saves.pack(demo, "/dump/vzdump-vc-demo_other-2020_01_01-00_00_00.tar.gz");
    await ended(backupClusterOperation(all), BACKUP_CLUSTER, { name: "demo", storage: "local" });
    const left = [...all.saves.archives.keys()];
    expect(left).toHaveLength(3);
    expect(left).toContain(`/dump/${old(3)}`);
    expect(left).toContain("/dump/vzdump-vc-demo_other-2020_01_01-00_00_00.tar.gz");
  });

  test("is refused while something works on the cluster", async () => {
    const { error } = await ended(
      backupClusterOperation(world({ ...demo, phase: "Scaling" })),
      BACKUP_CLUSTER,
      {
        name: "demo",
        storage: "local",
      },
    );
    expect(error).toContain("is Scaling");
  });

  test("leaves an archive or nothing, wherever it is cut off", async () => {
    await testSaga({
      prepare: () => world(),
      define: (engine, all) => {
        engine.register(backupClusterOperation(all));
        return { type: BACKUP_CLUSTER, args: { name: "demo", storage: "local" } };
      },
      check: ({ saves }, outcome) => {
        expect(saves.archives.size).toBe(outcome === "done" ? 1 : 0);
      },
    });
  });
});

describe("a backup in place of a cluster", () => {
  const restored = { ...spec, workers: 0, dnsDomain: "old.local" };
  const args = {
    name: "demo",
    archive: `local:backup/${old(1)}`,
    identity: "whole",
    spec: restored,
    version: "1.36.3",
  } as const;
  const prepare = async (cluster: KeptCluster = demo) => {
    const all = world(cluster);
    await all.saves.pack({ ...demo, spec: restored, version: "1.36.3" }, `/dump/${old(1)}`);
    const [path = ""] = all.saves.archives.keys();
    const { manifest } = all.saves.archives.get(path) ?? {};
    if (manifest !== undefined) all.saves.archives.set(path, { manifest, content: "then" });
    const workers = { bring: async () => undefined, stop: async () => undefined };
    const vnodes = new FakeVnodeHost();
    vnodes.save("demo", { slot: 0, name: "worker-1", size: spec.workerSize, isWanted: true });
    return { ...all, workers, vnodes, ensureComponent: async () => undefined };
  };

  test("is what runs then, with its keys, and nothing of the one before is left", async () => {
    const all = await prepare();
    const { state } = await ended(restoreOverOperation(all), RESTORE_OVER_CLUSTER, args);
    expect(state).toBe("done");
    expect(all.saves.contents.get("demo")).toBe("then");
    expect(all.saves.identities.get("demo")).toBe("whole");
    expect(all.host.get("demo")).toMatchObject({ phase: "Running", version: "1.36.3", isWanted: true });
    expect([all.saves.kept.size, all.saves.away.size, all.vnodes.list("demo").length]).toEqual([0, 0, 0]);
  });

  test("is what runs then with the keys of the one before, where it is another's", async () => {
    const all = await prepare();
    const fresh = { ...args, identity: "fresh" };
    expect(await ended(restoreOverOperation(all), RESTORE_OVER_CLUSTER, fresh)).toMatchObject({
      state: "done",
    });
    expect(all.saves.contents.get("demo")).toBe("then");
    expect(all.saves.identities.get("demo")).toBe("fresh");
  });

  test("that cannot be read lets the one before go on as it was", async () => {
    const all = await prepare();
    all.saves.broken.add("unpack");
    const { state, error } = await ended(restoreOverOperation(all), RESTORE_OVER_CLUSTER, args);
    expect([state, error]).toEqual(["failed", "unpack is broken"]);
    expect(all.saves.contents.get("demo")).toBe("now");
    expect(all.host.get("demo")).toMatchObject({ phase: "Running", version: "1.36.4", isWanted: true });
    expect(all.host.running.has("demo")).toBe(true);
  });

  test("in place of one that does not end leaves it as it was", async () => {
    const all = await prepare();
    all.host.broken.add("stop");
    const { state, error } = await ended(restoreOverOperation(all), RESTORE_OVER_CLUSTER, args);
    expect([state, error]).toEqual(["failed", "stop is broken"]);
    expect(all.host.get("demo")).toMatchObject({ phase: "Running", isWanted: true });
  });

  test("is refused while something works on the cluster", async () => {
    const all = await prepare({ ...demo, phase: "Failed" });
    const { error } = await ended(restoreOverOperation(all), RESTORE_OVER_CLUSTER, args);
    expect(error).toContain("delete it and restore it as a new one");
  });

  test("is whole or undone, wherever it is cut off", async () => {
    await testSaga({
      prepare: () => prepare(),
      define: (engine, all) => {
        engine.register(restoreOverOperation(all));
        return { type: RESTORE_OVER_CLUSTER, args };
      },
      check: ({ saves, host }, outcome) => {
        expect(host.get("demo")?.phase).toBe("Running");
        expect(host.running.has("demo")).toBe(true);
        if (outcome === "done") expect(saves.contents.get("demo")).toBe("then");
        else expect(["now", "then"]).toContain(saves.contents.get("demo"));
        expect([saves.kept.size, saves.away.size]).toEqual([0, 0]);
      },
    });
  });
});
