import { plainItems } from "../../testing/plain-items.ts";
import { expect, it } from "vitest";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { NodeView } from "@gpve/domain/node/runtime.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { testSaga } from "@gpve/kit/testing/saga-harness.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { silent } from "../../presentation/v1/testing/v1-server.ts";
import { AccessDirectory } from "@gpve/domain/access/access-directory.ts";
import type { VmActionDeps } from "./adapters/virtual-machine.ts";
import { APPLY_OPERATION, applyObjectsOperation } from "./apply-objects.ts";
import type { ApplyArgs } from "./apply-objects.ts";
import { createKindAdapters } from "./kind-adapters.ts";
import { metaCollection } from "./object-meta.ts";
import { quietKinds } from "../../testing/quiet-kinds.ts";

interface World {
  readonly records: Records & { close(): Promise<void> };
  close(): Promise<void>;
}

const view = { node: "n1", health: "online" } as unknown as NodeView;
const board = { list: () => [view], get: () => view, generation: () => 0 };
const args: ApplyArgs = {
  items: [
    { kind: "VirtualMachine", name: "100", spec: { config: { cores: "4" } }, labels: { tier: "gold" } },
    { kind: "VirtualMachine", name: "101", spec: { config: { name: "new" } }, labels: { tier: "gold" } },
  ],
};

/** A node that does at once what it is asked to. */
const nodeOf = (records: Records): VmActionDeps => ({
  ...quietKinds.vmActions,
  callNode: async (_node, route, params, { requestId }) => {
    const {
      vmid,
      config,
      delete: _gone,
      digest: _digest,
      ...set
    }: Readonly<Record<string, unknown>> = params;
    await records.transact((tx) => {
      const values = route.endsWith("/virtual-machines") ? (config as object) : set;
      const conf = Object.entries(values)
        .map(([key, text]) => `${key}: ${String(text)}\n`)
        .join("");
      if (route.startsWith("DELETE ")) tx.delete(guestCollection, String(vmid));
      else if (!route.endsWith("/stop"))
        tx.put(
          guestCollection,
          String(vmid),
          guestRecord({ vmid: Number(vmid), type: "qemu", node: "n1", conf, madeBy: requestId }),
        );
    });
    return null;
  },
});

it("an apply of virtual machines ends done or undone whatever happens to it", async () => {
  const report = await testSaga<World>({
    prepare: async () => {
      const store = openSqliteStore({ path: ":memory:" });
      const records = await openRecords(store, { prefix: "/gpve/", log: silent });
      const conf = "cores: 2\n";
      await records.transact((tx) =>
        tx.put(guestCollection, "100", guestRecord({ vmid: 100, type: "qemu", node: "n1", conf })),
      );
      return {
        records,
        close: async () => {
          await records.close();
          await store.close();
        },
      };
    },
    define: (engine, { records }) => {
      const directory = new AccessDirectory({ records, clock: systemClock });
      engine.register(
        applyObjectsOperation({
          seals: plainItems,
          records,
          clock: systemClock,
          adapters: createKindAdapters({
            board,
            ...quietKinds,
            ownNode: () => undefined,
            vmActions: nodeOf(records),
          }),
          accessOf: () => directory.view({ userid: "root@pam", authid: "root@pam" }),
          log: silent,
        }),
      );
      return { type: APPLY_OPERATION, args, resources: ["object/all"] };
    },
    check: ({ records }, outcome) => {
      const done = outcome === "done";
      const guests = records.collection(guestCollection);
      expect(guests.list().map(({ id }) => id)).toEqual(done ? ["100", "101"] : ["100"]);
      expect(guests.get("100")?.value.conf).toBe(done ? "cores: 4\n" : "cores: 2\n");
      expect(
        records
          .collection(metaCollection)
          .list()
          .map(({ value }) => value.labels),
      ).toEqual(done ? [{ tier: "gold" }, { tier: "gold" }] : []);
    },
    cleanup: (world) => world.close(),
  });
  expect(report.runs).toBeGreaterThan(5);
});

it("takes back only what it had made itself, after a crash while a node was making it", async () => {
  const store = openSqliteStore({ path: ":memory:" });
  const records = await openRecords(store, { prefix: "/gpve/", log: silent });
  const withdrawn: string[] = [];
  const directory = new AccessDirectory({ records, clock: systemClock });
  const vmActions: VmActionDeps = {
    ...nodeOf(records),
    withdraw: async (vmid, requestId) => void withdrawn.push(`${vmid} ${requestId}`),
  };
  const operation = applyObjectsOperation({
    seals: plainItems,
    records,
    clock: systemClock,
    adapters: createKindAdapters({ board, ...quietKinds, ownNode: () => undefined, vmActions }),
    accessOf: () => directory.view({ userid: "root@pam", authid: "root@pam" }),
    log: silent,
  });
  const [step] = operation.plan?.({ items: args.items.slice(1) }) ?? [];
  /** As the journal has it when the process dies before the node has answered. */
  const undo = (): Promise<void> | void =>
    step?.undo?.({
      args,
      state: { before: { "VirtualMachine 101": null } },
      signal: new AbortController().signal,
      id: "UPID:mine",
      resources: [],
      actor: "root@pam",
      traceparent: undefined,
      clock: systemClock,
      log: () => undefined,
      warn: () => undefined,
      progress: () => undefined,
      checkpoint: async () => undefined,
    });
  const made = (madeBy: string | undefined): Promise<void> =>
    records.transact((tx) => {
      const guest = { vmid: 101, type: "qemu", node: "n1", conf: "name: new\n" } as const;
      tx.put(guestCollection, "101", guestRecord(madeBy === undefined ? guest : { ...guest, madeBy }));
    });
  const isThere = (): boolean => records.collection(guestCollection).get("101") !== undefined;
  for (const madeBy of ["UPID:another", undefined]) {
    await made(madeBy);
    await expect(undo()).rejects.toThrow(/left as it is/);
    expect(isThere()).toBe(true);
  }
  await made("UPID:mine");
  await undo();
  expect(isThere()).toBe(false);
  // Nothing there yet: nor may it come later.
  await undo();
  expect(withdrawn.at(-1)).toBe("101 UPID:mine");
  await records.close();
  await store.close();
});
