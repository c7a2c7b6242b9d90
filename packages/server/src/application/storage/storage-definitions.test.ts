import { beforeEach, describe, expect, it } from "vitest";
import { isAppError } from "@gpve/contracts/errors.ts";
import type { AclEntry } from "@gpve/domain/access/types.ts";
import { mappingCollection, mappingKey, newMapping } from "@gpve/domain/mapping/mapping.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { createStorageHandlers } from "../../presentation/http/storage/storage-handlers.ts";
import { MemoryRecords } from "../../testing/memory-records.ts";
import { aclDef, poolsDef } from "@gpve/domain/access/collections.ts";
import { StorageDefinitions } from "./storage-definitions.ts";

let records: MemoryRecords;
let storages: StorageDefinitions;
beforeEach(async () => {
  records = new MemoryRecords();
  storages = new StorageDefinitions(records);
  await storages.ensureDefault("/data/storage/local");
});
const seeing = (...visible: string[]): RequestContext =>
  ({
    access: { has: (path: string) => visible.some((id) => path === `/storage/${id}`) },
  }) as unknown as RequestContext;

const nothing = (): Promise<void> => Promise.resolve();

describe("storage definitions of a cluster", () => {
  it("begin with `local`, once", async () => {
    await storages.ensureDefault("/elsewhere");
    expect(storages.get("local")).toMatchObject({
      storage: "local",
      type: "dir",
      path: "/data/storage/local",
      content: "backup,images,import,iso,rootdir,snippets,vztmpl",
    });
    expect(storages.get("local")["digest"]).toMatch(/^[0-9a-f]{40}$/);
  });

  it("are created, listed to those who may see them, changed and removed", async () => {
    const made = await storages.create("d1", "dir", { path: "/srv/d1", shared: true, nodes: undefined });
    expect(made).toEqual({ storage: "d1", type: "dir" });
    expect(storages.list(seeing("d1"), undefined).map((row) => row["storage"])).toEqual(["d1"]);
    expect(storages.list(seeing("d1", "local"), "nfs")).toEqual([]);
    const before = storages.digest();
    await storages.update("d1", { set: { disable: true }, delete: "shared", digest: before });
    expect(storages.get("d1")).toMatchObject({ disable: true });
    expect(storages.get("d1")["shared"]).toBeUndefined();
    await expect(storages.update("d1", { set: {}, delete: undefined, digest: before })).rejects.toThrow(
      "update storage failed: detected modified configuration - file changed by other user? Try again.",
    );
    await storages.remove("d1");
    expect(() => storages.get("d1")).toThrow("storage 'd1' does not exist");
  });

  it("are in no directory that guests of their nodes have", async () => {
    const share = newMapping("dir", "share", { map: ["node=n1,path=/srv/share/"] });
    await records.transact((tx) => tx.put(mappingCollection, mappingKey("dir", "share"), share));
    const owner = "which guests have as directory mapping 'share'";
    for (const options of [
      { path: "/srv/share" },
      { path: "/srv/share/inside" },
      { path: "/srv", content: "iso", "content-dirs": "iso=share" },
    ])
      await expect(storages.create("d1", "dir", options)).rejects.toThrow(owner);
    await storages.create("d1", "dir", { path: "/srv/share/inside", nodes: "n2" });
    await expect(
      storages.update("d1", { set: { nodes: "n1,n2" }, delete: undefined, digest: undefined }),
    ).rejects.toThrow(owner);
    await storages.create("d2", "dir", { path: "/srv", content: "iso" });
  });

  it("speak PVE's words when refused", async () => {
    await expect(storages.create("local", "dir", { path: "/x" })).rejects.toThrow(
      "create storage failed: storage ID 'local' already defined",
    );
    await expect(storages.create("local", "dir", {})).rejects.toThrow(
      /^missing value for required option 'path'$/,
    );
    await expect(storages.create("d1", "dir", { path: "/a b" })).rejects.toThrow(/^illegal path/);
    const change = (set: Record<string, string>, remove?: string): Promise<unknown> =>
      storages.update("local", { set, delete: remove, digest: undefined });
    await expect(change({}, "vgname")).rejects.toThrow("update storage failed: no such option 'vgname'");
    await expect(change({ pool: "x" })).rejects.toThrow("update storage failed: unexpected property 'pool'");
    await expect(storages.update("d1", { set: {}, delete: undefined, digest: undefined })).rejects.toThrow(
      "update storage failed: storage 'd1' does not exist",
    );
    await expect(storages.remove("d1")).rejects.toThrow("delete storage failed: storage 'd1' does not exist");
    const zfs = storages.create("n1", "zfspool", { pool: "tank" });
    await expect(zfs).rejects.toSatisfy((err) => isAppError(err, "feature.unsupported"));
  });

  it("show the directory of each content type by itself", async () => {
    await storages.create("d1", "dir", { path: "/srv/d1/", "content-dirs": "iso=isos,backup=old/dumps" });
    expect(storages.get("d1")).toMatchObject({
      path: "/srv/d1/",
      "content-dirs": { iso: "isos", backup: "old/dumps" },
    });
  });

  it("take the rights on them along when they go", async () => {
    await records.transact((tx) => {
      tx.put(poolsDef, "p", { poolid: "p", vms: [], storage: ["local"] });
      const entry: AclEntry = {
        path: "/storage/local",
        type: "user",
        ugid: "a@pve",
        roleid: "R",
        propagate: true,
      };
      tx.put(aclDef, "/storage/local:user:a@pve:R", entry);
    });
    await storages.remove("local");
    expect(records.collection(poolsDef).get("p")?.value.storage).toEqual([]);
    expect(records.collection(aclDef).list()).toEqual([]);
  });

  it("appear in resource lists only where they are enabled, and only change when they change", async () => {
    const first = storages.listing();
    expect(storages.listing()).toEqual(first);
    await storages.create("d1", "dir", { path: "/a", disable: true });
    await storages.create("d2", "dir", { path: "/b", nodes: "n1,n2", content: "iso" });
    expect(storages.listing()).toEqual([
      { storage: "d2", type: "dir", content: "iso", shared: false, nodes: ["n1", "n2"] },
      ...first,
    ]);
    expect(storages.definitions().map(({ storage }) => storage)).toEqual(["d1", "d2", "local"]);
  });

  it("are reached by PVE's methods", async () => {
    const handlers = createStorageHandlers({ storages, attempt: nothing, checkPlace: nothing });
    const ctx = seeing("local", "d1");
    expect(await handlers["POST /storage"]?.({ storage: "d1", type: "dir", path: "/x" }, ctx)).toEqual({
      storage: "d1",
      type: "dir",
    });
    expect(await handlers["PUT /storage/{storage}"]?.({ storage: "d1", content: "iso" }, ctx)).toEqual({
      storage: "d1",
      type: "dir",
    });
    expect(handlers["GET /storage"]?.({}, ctx)).toHaveLength(2);
    expect(handlers["GET /storage/{storage}"]?.({ storage: "d1" }, ctx)).toMatchObject({ content: "iso" });
    expect(await handlers["DELETE /storage/{storage}"]?.({ storage: "d1" }, ctx)).toBeNull();
  });
});
