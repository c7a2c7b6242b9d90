import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { exec } from "@gpve/kit/exec.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import type { Store } from "@gpve/store/port.ts";
import { settleVolumes, volumesFolder } from "../../vnode/volumes-place.ts";
import { FileClusterSaves } from "./file-cluster-saves.ts";
import { FileVolumeParcels } from "./volume-parcels.ts";

const KEYS = ["ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "sa.pub", "sa.key"];
const clusterOf = (name: string): KeptCluster => ({
  name,
  tenant: "shop",
  spec: readVirtualClusterSpec({ workerNodes: { count: 1 } }),
  version: "1.36.4",
  network: 7,
  phase: "Running",
  isWanted: true,
});
const work = { signal: new AbortController().signal, say: () => undefined };
const key = (name: string): Uint8Array => new TextEncoder().encode(`/registry/configmaps/default/${name}`);

describe("what is kept of virtual clusters, as files", () => {
  let folder: string;
  const stores = new Map<string, Store>();
  let saves: FileClusterSaves;
  const place = (...parts: readonly string[]): string => join(folder, "clusters", ...parts);
  const put = async (cluster: string, name: string, value: string): Promise<void> => {
    const op = { type: "put", key: key(name), value: new TextEncoder().encode(value) } as const;
    await storeOf(cluster).txn({ compare: [], success: [op] });
  };
  const get = async (cluster: string, name: string): Promise<string | undefined> => {
    const { kvs } = await storeOf(cluster).range({ key: key(name) });
    return kvs[0] === undefined ? undefined : new TextDecoder().decode(kvs[0].value);
  };
  const storeOf = (name: string): Store => {
    let store = stores.get(name);
    if (store === undefined) {
      mkdirSync(place(name), { recursive: true });
      store = openSqliteStore({ path: place(name, "state.db"), clock: systemClock });
      stores.set(name, store);
    }
    return store;
  };
  const keyFiles = (name: string, mark: string): void => {
    mkdirSync(place(name, "pki"), { recursive: true });
    for (const file of [...KEYS, "encryption.json", "apiserver.crt"])
      writeFileSync(place(name, "pki", file), `${file} ${mark}`);
  };

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "gpve-saves-"));
    saves = new FileClusterSaves({
      folder,
      exec,
      clock: systemClock,
      volumeStorage: async (storage) => {
        const found = place("storages", storage);
        mkdirSync(found, { recursive: true });
        return found;
      },
      withStore: ({ name }, _signal, use) => use(storeOf(name)),
    });
    keyFiles("demo", "first");
  });
  afterEach(async () => {
    for (const store of stores.values()) await store.close();
    stores.clear();
    rmSync(folder, { recursive: true, force: true });
  });

  test("an etcd of its own comes back as the folder that it was, with the keys of then", async () => {
    const spec = readVirtualClusterSpec({ controlPlane: { backingStore: "etcd" } });
    const cluster = { ...clusterOf("demo"), spec };
    expect(saves.isKept("demo", "upgrade")).toBe(false);
    await expect(saves.keep(cluster, "upgrade", work)).rejects.toThrow("no data of an etcd");
    expect(saves.isKept("demo", "upgrade")).toBe(false);
    mkdirSync(place("demo", "etcd", "member"), { recursive: true });
    writeFileSync(place("demo", "etcd", "member", "db"), "before");
    await saves.keep(cluster, "upgrade", work);
    writeFileSync(place("demo", "etcd", "member", "db"), "after");
    writeFileSync(place("demo", "etcd", "member", "wal"), "after");
    keyFiles("demo", "second");
    await saves.bringBack(cluster, "upgrade", work);
    expect(readdirSync(place("demo", "etcd", "member"))).toEqual(["db"]);
    expect(readFileSync(place("demo", "etcd", "member", "db"), "utf8")).toBe("before");
    expect(readFileSync(place("demo", "pki", "ca.key"), "utf8")).toBe("ca.key first");
    // It can be brought back again.
    expect(saves.isKept("demo", "upgrade")).toBe(true);
    saves.drop("demo", "upgrade");
    expect(saves.isKept("demo", "upgrade")).toBe(false);
  });

  test("a store comes back as it was kept, with the keys of then", async () => {
    await put("demo", "a", "1");
    expect(await saves.keep(clusterOf("demo"), "upgrade", work)).toMatchObject({ objects: 1 });
    await put("demo", "a", "2");
    await put("demo", "b", "2");
    keyFiles("demo", "second");
    await saves.bringBack(clusterOf("demo"), "upgrade", work);
    // Nor does what it had meanwhile take room.
    const old = { key: key("b"), revision: (await storeOf("demo").revision()) - 2 };
    await expect(storeOf("demo").range(old)).rejects.toMatchObject({ code: "store.compacted" });
    await saves.bringBack(clusterOf("demo"), "upgrade", work);
    expect([await get("demo", "a"), await get("demo", "b")]).toEqual(["1", undefined]);
    expect(readFileSync(place("demo", "pki", "ca.key"), "utf8")).toBe("ca.key first");
    expect(() => readFileSync(place("demo", "pki", "apiserver.crt"))).toThrow("ENOENT");
    expect(saves.isKept("demo", "upgrade")).toBe(true);
    saves.drop("demo", "upgrade");
    expect(saves.isKept("demo", "upgrade")).toBe(false);
  });

  test("an archive becomes another cluster, with volumes, and authorities of its own", async () => {
    await put("demo", "a", "1");
    const volume = ["vnodes", "worker-1", "kubelet", "gpve-volumes", "pvc-1"];
    mkdirSync(place("demo", ...volume), { recursive: true });
    writeFileSync(place("demo", ...volume, "data"), "hello");
    const path = join(folder, "archive.tar.gz");
    expect(await saves.pack(clusterOf("demo"), path, work)).toMatchObject({ volumes: ["worker-1/pvc-1"] });
    expect(await saves.manifest(path)).toMatchObject({
      name: "demo",
      tenant: "shop",
      kubernetesVersion: "1.36.4",
      objects: 1,
      spec: { workerNodes: { count: 1 } },
    });
    await saves.unpack(clusterOf("other"), path, "fresh", work);
    expect(await get("other", "a")).toBe("1");
    expect(readFileSync(place("other", ...volume, "data"), "utf8")).toBe("hello");
    expect(readFileSync(place("other", "pki", "encryption.json"), "utf8")).toBe("encryption.json first");
    expect(() => readFileSync(place("other", "pki", "ca.key"))).toThrow("ENOENT");
    await saves.unpack(clusterOf("again"), path, "whole", work);
    expect(readFileSync(place("again", "pki", "sa.key"), "utf8")).toBe("sa.key first");
    // Where it takes the place of one that has authorities, those stay.
    writeFileSync(place("other", "pki", "ca.key"), "ca.key of other");
    writeFileSync(place("other", "pki", "encryption.json"), "encryption.json of other");
    await saves.unpack(clusterOf("other"), path, "fresh", work);
    expect(readFileSync(place("other", "pki", "ca.key"), "utf8")).toBe("ca.key of other");
    expect(readFileSync(place("other", "pki", "encryption.json"), "utf8")).toBe("encryption.json first");
    await saves.discard(path);
    await expect(saves.manifest(path)).rejects.toThrow("is no backup of a virtual cluster");
  });

  test("volumes on a storage are in archives as others are, and come back to it beside those of before", async () => {
    const spec = readVirtualClusterSpec({ workerNodes: { count: 1 }, volumes: { storage: "fast" } });
    const onStorage = (name: string): KeptCluster => ({ ...clusterOf(name), spec });
    const [worker, storage] = [place("demo", "vnodes", "worker-1"), place("storages", "fast")];
    mkdirSync(storage, { recursive: true });
    settleVolumes(worker, "demo", storage);
    mkdirSync(join(volumesFolder(worker), "pvc-1"));
    writeFileSync(join(volumesFolder(worker), "pvc-1", "data"), "hello");
    const path = join(folder, "archive.tar.gz");
    expect(await saves.pack(onStorage("demo"), path, work)).toMatchObject({ volumes: ["worker-1/pvc-1"] });
    // Another cluster without that storage has them in its own folder.
    await saves.unpack(clusterOf("other"), path, "fresh", work);
    const own = ["vnodes", "worker-1", "kubelet", "gpve-volumes", "pvc-1", "data"];
    expect(readFileSync(place("other", ...own), "utf8")).toBe("hello");
    saves.putWorkersAway("demo", "before");
    await saves.unpack(onStorage("demo"), path, "whole", work);
    expect(readFileSync(join(volumesFolder(worker), "pvc-1", "data"), "utf8")).toBe("hello");
    expect(readdirSync(storage)).toHaveLength(2);
    writeFileSync(join(volumesFolder(worker), "pvc-1", "data"), "since");
    saves.bringWorkersBack("demo", "before");
    expect(readFileSync(join(volumesFolder(worker), "pvc-1", "data"), "utf8")).toBe("hello");
    expect(readdirSync(storage)).toHaveLength(1);
    saves.putWorkersAway("demo", "before");
    saves.drop("demo", "before");
    expect(readdirSync(storage)).toEqual([]);
  });

  test("volumes of workers in pools are there too, and one that is a link is refused", async () => {
    const volumes = ["vnodes", "build-1", "kubelet", "gpve-volumes"];
    mkdirSync(place("demo", ...volumes, "pvc-1"), { recursive: true });
    const path = join(folder, "archive.tar.gz");
    expect(await saves.pack(clusterOf("demo"), path, work)).toMatchObject({ volumes: ["build-1/pvc-1"] });
    await saves.unpack(clusterOf("other"), path, "whole", work);
    expect(readdirSync(place("other", ...volumes))).toEqual(["pvc-1"]);
    symlinkSync("/", place("demo", ...volumes, "pvc-2"));
    await saves.pack(clusterOf("demo"), path, work);
    await expect(saves.unpack(clusterOf("third"), path, "whole", work)).rejects.toThrow("are no folders");
    expect(existsSync(place("third", "vnodes"))).toBe(false);
  });

  test("keys and store that are links to another cluster's are refused, and nothing of that is read", async () => {
    keyFiles("victim", "secret");
    await put("victim", "secret", "of another tenant");
    await saves.keep(clusterOf("victim"), "upgrade", work);
    await put("demo", "a", "1");
    const path = join(folder, "archive.tar.gz");
    await saves.pack(clusterOf("demo"), path, work);
    const forged = join(folder, "forged");
    for (const link of ["keys.json", "store.jsonl"]) {
      rmSync(forged, { recursive: true, force: true });
      mkdirSync(forged);
      await exec("tar", ["-xzf", path, "-C", forged]);
      rmSync(join(forged, link));
      symlinkSync(place("victim", "saves", "upgrade", link), join(forged, link));
      const bad = join(folder, "bad.tar.gz");
      await exec("tar", ["-czf", bad, "-C", forged, "manifest.json", "keys.json", "store.jsonl"]);
      const unpacked = saves.unpack(clusterOf("other"), bad, "whole", work);
      await expect(unpacked).rejects.toThrow(`the backup has a '${link}' that is no plain file`);
      expect([existsSync(place("other", "pki")), await get("other", "secret")]).toEqual([false, undefined]);
    }
  });

  test("an archive has what other nodes have of volumes; none is made while one that has any cannot be asked", async () => {
    const nodes = ["a", "b"].map((node, slot) => ({ node, address: "192.0.2.1", slot }));
    const cluster = { ...clusterOf("demo"), overlay: { nodes, at: 0 } };
    const path = join(folder, "archive.tar.gz");
    const volume = (name: string): Uint8Array =>
      new TextEncoder().encode(`/registry/persistentvolumes/${name}`);
    const add = (name: string) =>
      storeOf("demo").txn({
        compare: [],
        success: [{ type: "put", key: volume(name), value: volume(name) }],
      });
    mkdirSync(place("demo", "vnodes", "worker-1", "kubelet", "gpve-volumes", "pvc-1"), { recursive: true });
    await add("pvc-1");
    expect(await saves.pack(cluster, path, work)).toMatchObject({ volumes: ["worker-1/pvc-1"] });
    await add("pvc-2");
    await expect(saves.pack(cluster, join(folder, "second.tar.gz"), work)).rejects.toThrow(
      "1 of its persistent volumes are on no node that could be asked (pvc-2)",
    );
    expect(existsSync(join(folder, "second.tar.gz"))).toBe(false);
    // As the other node has it, in a folder of its own.
    const there = join(folder, "there");
    const far = join(there, "clusters", "demo");
    const parcels = new FileVolumeParcels({ folder: there, exec, newId: () => "p" });
    const open = (signal: AbortSignal) => parcels.pack("demo", signal);
    await expect(open(work.signal)).rejects.toThrow("nothing of virtual cluster 'demo'");
    mkdirSync(far, { recursive: true });
    writeFileSync(join(far, "cluster.json"), "{}");
    expect(await open(work.signal)).toMatchObject({ size: 0 });
    const volumes = join(far, "vnodes", "worker-2", "kubelet", "gpve-volumes");
    mkdirSync(join(volumes, "pvc-2"), { recursive: true });
    writeFileSync(join(volumes, "pvc-2", "data"), "far");
    const said: string[] = [];
    const others = [
      { node: "gone", open: () => Promise.reject(new Error("cannot reach it")) },
      { node: "b", open },
    ];
    const both = { ...work, say: (line: string) => void said.push(line), others };
    expect(await saves.pack(cluster, path, both)).toMatchObject({
      volumes: ["worker-1/pvc-1", "worker-2/pvc-2"],
    });
    expect(said).toContain("node gone could not be asked for its volumes: cannot reach it");
    expect(readdirSync(join(far, "saves"))).toEqual([]);
    expect(saves.isKept("demo", "pack")).toBe(false);
    await saves.unpack(clusterOf("other"), path, "fresh", work);
    const restored = place("other", "vnodes", "worker-2", "kubelet", "gpve-volumes", "pvc-2", "data");
    expect(readFileSync(restored, "utf8")).toBe("far");
    // A node that would have this one read through a link is told off.
    const secret = join(folder, "secret", "gpve-volumes", "pvc-2");
    mkdirSync(secret, { recursive: true });
    rmSync(join(far, "vnodes", "worker-2", "kubelet"), { recursive: true });
    symlinkSync(join(folder, "secret"), join(far, "vnodes", "worker-2", "kubelet"));
    const forged = join(folder, "forged.tar.gz");
    await exec("tar", ["-czf", forged, "-C", far, "vnodes"]);
    const bytes = readFileSync(forged);
    const hostile = async () => ({
      size: bytes.length,
      body: (async function* () {
        yield bytes;
      })(),
      close: async () => undefined,
    });
    const third = saves.pack(cluster, join(folder, "third.tar.gz"), {
      ...work,
      others: [{ node: "b", open: hostile }],
    });
    await expect(third).rejects.toThrow("volumes of 'worker-2' that are no folders");
  });

  test("a damaged archive leaves what is there", async () => {
    await put("demo", "a", "1");
    const path = join(folder, "archive.tar.gz");
    await saves.pack(clusterOf("demo"), path, work);
    const bytes = readFileSync(path);
    writeFileSync(path, bytes.subarray(0, bytes.length - 200));
    await put("other", "mine", "2");
    await expect(saves.unpack(clusterOf("other"), path, "whole", work)).rejects.toThrow(
      /cannot be unpacked|no backup/,
    );
    expect(await get("other", "mine")).toBe("2");
  });

  test("disks of workers are put away and come back, also when it is done again", () => {
    mkdirSync(place("demo", "vnodes", "worker-1"), { recursive: true });
    saves.putWorkersAway("demo", "before");
    saves.putWorkersAway("demo", "before");
    expect(() => readFileSync(place("demo", "vnodes", "worker-1"))).toThrow("ENOENT");
    saves.bringWorkersBack("demo", "before");
    saves.bringWorkersBack("demo", "before");
    expect(() => readFileSync(place("demo", "vnodes", "worker-1"))).toThrow("EISDIR");
  });
});
