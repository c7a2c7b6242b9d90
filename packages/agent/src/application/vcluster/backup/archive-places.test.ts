import { expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { StorageDefinition } from "@gpve/domain/storage/definition.ts";
import type { StoragePlugin } from "@gpve/domain/storage/plugin.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { ArchivePlaces } from "./archive-places.ts";

function placesOf(away: ReadonlySet<string>): ArchivePlaces {
  const definitions = ["local", "nas"].map((storage): StorageDefinition => ({
    storage,
    type: "dir",
    options: { path: "/x", content: "backup" },
  }));
  const open = async (storage: string) => {
    if (away.has(storage)) throw new AppError("node.unavailable", `storage '${storage}' is not online`);
    const volname = "backup/vzdump-vc-demo_shop-2020_01_01-00_00_00.tar.gz";
    const plugin = {
      storage,
      list: async () => [{ volname, size: 1, ctime: 1 }],
    } as unknown as StoragePlugin;
    return { plugin, definition: definitions[0] as StorageDefinition };
  };
  return new ArchivePlaces({ open, definitions: () => definitions, isEnabled: () => true }, silentLogger);
}

test("a storage that is away hides none of the others' backups; where all are, that is told", async () => {
  const owner = { name: "demo", tenant: "shop" };
  const seen = async (...away: readonly string[]): Promise<readonly string[]> =>
    (await placesOf(new Set(away)).list(owner)).map(({ volid }) => volid.split(":")[0] ?? "");
  expect(await seen()).toEqual(["local", "nas"]);
  expect(await seen("local")).toEqual(["nas"]);
  expect(await seen("nas")).toEqual(["local"]);
  await expect(seen("local", "nas")).rejects.toThrow("storage 'local' is not online");
});
