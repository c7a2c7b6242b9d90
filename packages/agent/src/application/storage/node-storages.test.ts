import { newStorageDefinition, type StorageDefinition } from "@gpve/domain/storage/definition.ts";
import type { StoragePlugin, StorageStatus } from "@gpve/domain/storage/plugin.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { describe, expect, test } from "vitest";
import { NodeStorages } from "./node-storages.ts";

const FULL: StorageStatus = { active: true, total: 10, used: 4, avail: 6 };

/** Whose storages are there when `arrive` is called, as those of an agent are that has just reached a server. */
function world(
  activate: (storage: string) => Promise<void> = () => Promise.resolve(),
  definitions: readonly StorageDefinition[] = [],
) {
  const clock = new FakeClock();
  const looks: string[] = [];
  const problems: string[] = [];
  const pluginFor = ({ storage }: StorageDefinition): StoragePlugin =>
    ({
      activate: () => {
        looks.push(storage);
        return activate(storage);
      },
      deactivate: () => Promise.resolve(),
      status: () => Promise.resolve(FULL),
    }) as unknown as StoragePlugin;
  const storages = new NodeStorages({
    guard: async () => undefined,
    node: "n1",
    definitions: () => definitions,
    pluginFor,
    clock,
    onProblem: (storage, problem) => void problems.push(`${storage}: ${problem}`),
  });
  const arrive = (...names: string[]): void => {
    definitions = names.map((name) => newStorageDefinition(name, "dir", { path: `/srv/${name}` }));
  };
  return { clock, looks, problems, storages, arrive };
}

const active = (rows: readonly { storage: string; active: boolean }[]): Record<string, boolean> =>
  Object.fromEntries(rows.map((row) => [row.storage, row.active]));

describe("what is reported of storages", () => {
  test("the first report after they became known says that they are there", async () => {
    const { storages, arrive } = world();
    await storages.refresh();
    expect(await storages.reported()).toEqual([]);
    arrive("local", "shared");
    expect(active(storages.runtimes())).toEqual({ local: false, shared: false });
    expect(active(await storages.reported())).toEqual({ local: true, shared: true });
  });

  test("reports to several servers share one look", async () => {
    const { storages, arrive, looks } = world();
    arrive("shared");
    const reports = await Promise.all([storages.reported(), storages.reported(), storages.reported()]);
    expect(reports.map(active)).toEqual([{ shared: true }, { shared: true }, { shared: true }]);
    expect(looks).toEqual(["shared"]);
  });

  test("one that hangs holds back one report for a moment, and is told when it is there", async () => {
    const hanging = Promise.withResolvers<void>();
    const { clock, storages, arrive } = world((name) =>
      name === "nfs" ? hanging.promise : Promise.resolve(),
    );
    arrive("local", "nfs");
    const first = storages.reported();
    await clock.advance(1_500);
    expect(active(await first)).toEqual({ local: true, nfs: false });
    expect(active(await storages.reported())).toEqual({ local: true, nfs: false });
    hanging.resolve();
    await clock.advance(0);
    expect(active(await storages.reported())).toEqual({ local: true, nfs: true });
  });

  test("one that cannot be used is told with the reason", async () => {
    const { storages, arrive, problems } = world(() => Promise.reject(new Error("no such directory")));
    arrive("gone");
    expect(await storages.reported()).toEqual([
      expect.objectContaining({ storage: "gone", active: false, problem: "no such directory" }),
    ]);
    expect(problems).toEqual(["gone: no such directory"]);
  });

  test("one that has just refused to be used is looked at again, however fresh the last look", async () => {
    const refusals: Error[] = [];
    const { storages, arrive } = world(async () => {
      for (const refusal of refusals) throw refusal;
    });
    arrive("local");
    const status = async (): Promise<boolean> => {
      const [local] = storages.definitions();
      return local !== undefined && (await storages.status(local)).active;
    };
    expect(await status()).toBe(true);
    refusals.push(new Error("it is a link now"));
    expect(await status()).toBe(true);
    await expect(storages.open("local")).rejects.toThrow("it is a link now");
    expect(await status()).toBe(false);
  });

  test("one that was defined anew while it refused stays as it is now", async () => {
    const hanging = Promise.withResolvers<void>();
    let activation = hanging.promise;
    const { storages, arrive } = world(() => activation);
    arrive("nfs");
    const opened = storages.open("nfs");
    activation = Promise.resolve();
    arrive("nfs");
    expect(active(await storages.reported())).toEqual({ nfs: true });
    hanging.reject(new Error("its server is gone"));
    await expect(opened).rejects.toThrow("its server is gone");
    expect(active(storages.runtimes())).toEqual({ nfs: true });
  });

  test("one that was changed is looked at again", async () => {
    const { storages, arrive, looks } = world();
    arrive("shared");
    await storages.reported();
    arrive("shared");
    expect(active(await storages.reported())).toEqual({ shared: true });
    expect(looks).toEqual(["shared", "shared"]);
  });
});

test("storages for a kind of content are those that are enabled here and may hold it", () => {
  const definitions = [
    newStorageDefinition("disks", "dir", { path: "/srv/a", content: "images" }),
    newStorageDefinition("files", "dir", { path: "/srv/b", content: "iso" }),
    newStorageDefinition("off", "dir", { path: "/srv/c", content: "images", disable: true }),
    newStorageDefinition("theirs", "dir", { path: "/srv/d", content: "images", nodes: "n2" }),
  ];
  const { storages } = world(undefined, definitions);
  expect(storages.enabledFor("images")).toEqual(["disks"]);
});
