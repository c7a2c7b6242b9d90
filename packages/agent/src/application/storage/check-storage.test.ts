import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { newStorageDefinition } from "@gpve/domain/storage/definition.ts";
import { contextOf, StorageWorld } from "../../testing/storage-world.ts";
import { createStorageChecks } from "./check-storage.ts";

let world: StorageWorld;
beforeEach(() => {
  world = new StorageWorld();
});
afterEach(() => world.remove());

const check = async (options: Record<string, string | boolean>, rights?: Record<string, string[]>) => {
  const definition = newStorageDefinition("new", "dir", { path: join(world.root, "new"), ...options });
  return createStorageChecks(world.storages)["POST /gpve/nodes/{node}/storage-checks"](
    { node: "n1", definition },
    contextOf(rights),
  );
};

it("makes the directories of a storage that may be used here, and keeps no definition", async () => {
  expect(await check({ content: "iso" })).toBeNull();
  expect(existsSync(join(world.root, "new/template/iso"))).toBe(true);
  expect(() => world.storages.find("new")).toThrow("does not exist");
});

it("leaves storages alone that are not for this node", async () => {
  await check({ nodes: "n2" });
  await check({ disable: true });
  expect(existsSync(join(world.root, "new"))).toBe(false);
});

it("says what is wrong, to those who may define storages", async () => {
  await expect(check({ "create-base-path": false })).rejects.toThrow("unable to activate storage 'new'");
  await expect(check({ is_mountpoint: "yes" })).rejects.toThrow("is expected to be a mount point");
  await expect(check({}, { "/storage/new": ["Datastore.Allocate"] })).rejects.toThrow("(/storage, Datastore");
});
