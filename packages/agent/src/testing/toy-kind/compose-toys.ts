// Toys on a node: what the table of kinds names.
import { guestKinds } from "@gpve/domain/guest/guest-kinds.ts";
import type { GuestRuntime } from "@gpve/domain/node/runtime.ts";
import { GuestConfigs } from "../../application/guest/guest-configs.ts";
import type { ComposeKind } from "../../compose-kind.ts";
import { toyBackup } from "./toy-backup.ts";
import { toyFormat } from "./toy-config.ts";
import {
  createToyOperation,
  runningToy,
  startToyOperation,
  stopToyOperation,
  TOY_OPERATIONS,
} from "./toy-operations.ts";
import { TOY_TYPE } from "./toy-row.ts";
import { toySnapshots } from "./toy-snapshots.ts";

export const composeToys: ComposeKind = async (parts) => {
  const { engine, processes, storages, exec, clock, records, node, sha1Hex } = parts;
  const configs = new GuestConfigs({ node, type: TOY_TYPE, format: toyFormat, records, sha1Hex, clock });
  const now = (): number => Math.floor(clock.now() / 1000);
  const host = { configs, processes, storages, exec, now };
  engine.register(createToyOperation(host));
  engine.register(startToyOperation(host));
  engine.register(stopToyOperation(host));
  const toys = (): GuestRuntime[] =>
    configs.list().flatMap((vmid) => {
      const process = runningToy(host, vmid);
      if (process === undefined) return [];
      const { memoryBytes: mem } = process.usage();
      const still = { cpu: 0, diskread: 0, diskwrite: 0, netin: 0, netout: 0 };
      const uptimeSeconds = Math.floor((clock.now() - process.startedAt) / 1000);
      return [{ vmid, type: TOY_TYPE, status: "running", uptimeSeconds, mem, ...still }];
    });
  return {
    type: TOY_TYPE,
    ordered: {
      noun: guestKinds[TOY_TYPE].noun,
      operations: { ...TOY_OPERATIONS, stop: TOY_OPERATIONS.shutdown, pause: TOY_OPERATIONS.shutdown },
      isRunning: (vmid) => runningToy(host, vmid) !== undefined,
      list: () =>
        configs.list().map((vmid) => ({ vmid, onboot: configs.get(vmid).values["onboot"] === "1" })),
    },
    snapshots: toySnapshots(host),
    backup: toyBackup(host, parts.backupTools),
    sampler: {
      askGuests: async () => undefined,
      sample: toys,
      rows: toys,
      running: () =>
        toys()
          .map(({ vmid }) => vmid)
          .join(),
    },
    atEnd: [
      {
        what: "a toy's last word",
        run: async (_vmid, say) => say("a toy is put away"),
      },
    ],
  };
};
