import { expect, test } from "vitest";
import type { NodeView } from "@gpve/domain/node/runtime.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { MemoryRecords } from "../../testing/memory-records.ts";
import { keepStorageDefaults } from "../storage/keep-storage-defaults.ts";
import { clusterDefaults, vmDefaultsOf } from "./defaults.ts";

const ofNode = { report: { defaults: { cpu: "host", bridge: "vmbr1" } } } as unknown as NodeView;

test("storages are the cluster's, the rest is the node's; a disk's storage is a default only where one was chosen", async () => {
  const deps = {
    records: new MemoryRecords(),
    board: { get: (node: string) => (node === "n1" ? ofNode : undefined) },
  };
  const local = { vmDisk: "local", iso: "local", backup: "local" };
  expect(clusterDefaults(deps, undefined)).toEqual({ storage: local });
  expect(clusterDefaults(deps, "n1")).toEqual({ storage: local, cpu: "host", bridge: "vmbr1" });
  expect(vmDefaultsOf(deps, "n1")).toEqual({ cpu: "host", bridge: "vmbr1" });
  await keepStorageDefaults(deps.records, { vmDisk: "fast" }, silentLogger);
  expect(clusterDefaults(deps, "n2")).toEqual({ storage: { ...local, vmDisk: "fast" } });
  expect(vmDefaultsOf(deps, "n1")).toEqual({ vmDisk: "fast", cpu: "host", bridge: "vmbr1" });
});
