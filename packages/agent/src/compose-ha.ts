// Wires high availability of one node: the local manager, its guests, and its fence process.
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import { resourceCollection, sidOf } from "@gpve/domain/ha/collections.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { identify } from "@gpve/kit/process-identity.ts";
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import type { Store } from "@gpve/store/port.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { OrderedGuests } from "./application/guest/all-guests.ts";
import { GuestOrders } from "./application/ha/guest-orders.ts";
import { LocalRounds, type GuardableGuest } from "./application/ha/keep-local-manager.ts";
import type { GuardedGuests, Watchdog } from "@gpve/domain/ha/fencing.ts";
import { LeaseKeeper } from "./application/ha/lease-keeper.ts";
import { LocalEnvironment } from "./application/ha/local-environment.ts";
import { bootMs, FenceFiles } from "./infrastructure/fence/fence-files.ts";
import { noWatchdog } from "./infrastructure/fence/watchdogs.ts";

/**
 * Who keeps this node's lease: a process of its own, which `ensure` starts where it does not run; or we ourselves, where
 * no other node could ever take a guest over.
 */
export type FenceSetting = { readonly ensure: () => void } | { readonly alone: Store };

export interface HaParts {
  readonly data: DataDir;
  readonly node: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly records: () => Records;
  readonly engine: OperationEngine;
  readonly fence: FenceSetting;
  readonly kindOf: (vmid: number) => OrderedGuests;
  readonly running: () => readonly GuardableGuest[];
  readonly notMovable: (vmid: number, target: string) => string | undefined;
}

export interface ComposedHa {
  readonly guardOf: (id: string) => string | undefined;
  /** Under HA: it is not started with the others of this node. */
  readonly isManaged: (vmid: number) => boolean;
  /** Whether a guest may be started here now. */
  readonly mayRun: (vmid: number) => boolean;
  readonly leave: (reason: "shutdown" | "reboot", timeoutMs: number) => Promise<void>;
  start(signal: AbortSignal): void;
}

export function composeHa(parts: HaParts): ComposedHa {
  const { data, node, clock, log, records, engine, fence } = parts;
  const files = new FenceFiles(data.file("run"));
  const sidOfGuest = (vmid: number): string => {
    const guest = records().collection(guestCollection).get(String(vmid))?.value;
    return guest === undefined ? `vm:${vmid}` : sidOf(guest);
  };
  const environment = new LocalEnvironment({
    node,
    clock,
    log,
    bootMs,
    records,
    lease: () => files.readReport(),
    wish: (hold) => {
      if (files.readWish() !== hold) files.writeWish(hold);
    },
    guests: new GuestOrders({
      engine,
      clock,
      log,
      isHere: (vmid) => records().collection(guestCollection).get(String(vmid))?.value.node === node,
      kindOf: parts.kindOf,
      notMovable: parts.notMovable,
    }),
    allGuarded: () => rounds.allGuarded(),
    unguardAll: () => rounds.unguardAll(),
  });
  const rounds = new LocalRounds({
    environment,
    clock,
    log,
    running: parts.running,
    sidOf: sidOfGuest,
    guardFile: "alone" in fence ? undefined : files.deadlineFile,
    ensureFence: "alone" in fence ? () => undefined : fence.ensure,
  });
  return {
    guardOf: (id) => rounds.guardOf(id),
    isManaged: (vmid) => environment.isManaged(sidOfGuest(vmid)),
    mayRun: (vmid) => rounds.mayRun(vmid),
    leave: (reason, timeoutMs) => rounds.leave(reason, timeoutMs),
    start(signal) {
      if ("alone" in fence) {
        const alone = { setDeadline: () => undefined, end: () => Promise.resolve({ ended: [], left: [] }) };
        const keeper = createKeeper({
          ...parts,
          files,
          store: fence.alone,
          guests: alone,
          watchdog: noWatchdog,
          // A node by itself writes nothing that nobody reads.
          isIdle: () => records().collection(resourceCollection).list().length === 0,
        });
        background(log, "the lease of this node", keeper.run(signal));
      }
      background(log, "HA on this node", rounds.run(signal));
    },
  };
}

export interface KeeperParts {
  readonly node: string;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly files: FenceFiles;
  readonly guests: GuardedGuests;
  readonly watchdog: Watchdog;
  readonly isIdle?: () => boolean;
}

export function createKeeper(parts: KeeperParts): LeaseKeeper {
  const { files } = parts;
  const self = identify(process.pid);
  if (self === undefined) throw new Error("this process cannot be found in /proc");
  return new LeaseKeeper({
    ...parts,
    bootMs,
    wished: () => files.readWish(),
    report: (report) => files.writeReport({ ...report, process: self, version: PRODUCT_VERSION }),
  });
}
