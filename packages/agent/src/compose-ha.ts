// Wires high availability of one node: the local manager, its guests, and its fence process.
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { identifySelf } from "@gpve/kit/process-identity.ts";
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import type { Store } from "@gpve/store/port.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { OrderedGuests } from "./application/guest/all-guests.ts";
import { fenceParts, type FenceSetting } from "./application/ha/fence-setting.ts";
import { GuestOrders } from "./application/ha/guest-orders.ts";
import { HaGuests } from "./application/ha/ha-guests.ts";
import { LocalRounds, type GuardableGuest } from "./application/ha/keep-local-manager.ts";
import type { GuardedGuests, Watchdog } from "@gpve/domain/ha/fencing.ts";
import { LeaseKeeper, type LeaseStore } from "./application/ha/lease-keeper.ts";
import { LocalEnvironment } from "./application/ha/local-environment.ts";
import { bootMs, FenceFiles } from "./infrastructure/fence/fence-files.ts";
import { noGuests } from "./infrastructure/fence/guarded-guests.ts";
import { noWatchdog } from "./infrastructure/fence/watchdogs.ts";

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
}

export interface ComposedHa {
  readonly guardOf: (id: string) => string | undefined;
  /** Under HA: it is not started with the others of this node. */
  readonly isManaged: (vmid: number) => boolean;
  /** Whether a guest may be started here now. */
  readonly mayRun: (vmid: number) => boolean;
  readonly leave: (reason: "shutdown" | "reboot", timeoutMs: number) => Promise<void>;
  /** It was left, and the machine stays. */
  readonly resume: () => void;
  start(signal: AbortSignal): void;
}

export function composeHa(parts: HaParts): ComposedHa {
  const { data, node, clock, log, records, engine } = parts;
  const files = new FenceFiles(data.file("run"));
  const fence = fenceParts(parts.fence, files.deadlineFile);
  const guests = new HaGuests(records, node);
  const environment = new LocalEnvironment({
    node,
    clock,
    log,
    bootMs,
    records,
    lease: () => files.readReport(),
    wish: (hold) => files.wish(hold),
    wished: () => files.readWish(),
    guests: new GuestOrders({
      engine,
      clock,
      log,
      isHere: guests.isHere,
      kindOf: parts.kindOf,
      notMovable: guests.notMovable,
    }),
    allGuarded: () => rounds.allGuarded(),
    unguardAll: () => rounds.unguardAll(),
  });
  const rounds = new LocalRounds({
    environment,
    clock,
    log,
    running: parts.running,
    sidOf: guests.sidOf,
    guardFile: fence.guardFile,
    ensureFence: fence.ensureFence,
  });
  const keepOwn = (store: Store): LeaseKeeper =>
    // A node by itself writes nothing that nobody reads.
    createKeeper({
      ...parts,
      files,
      store,
      guests: noGuests,
      watchdog: noWatchdog,
      isIdle: guests.areUnmanaged,
    });
  return {
    guardOf: (id) => rounds.guardOf(id),
    isManaged: (vmid) => environment.isManaged(guests.sidOf(vmid)),
    mayRun: (vmid) => rounds.mayRun(vmid),
    leave: (reason, timeoutMs) => rounds.leave(reason, timeoutMs),
    resume: () => rounds.resume(),
    start(signal) {
      if (fence.ownLease !== undefined)
        background(log, "the lease of this node", keepOwn(fence.ownLease).run(signal));
      background(log, "HA on this node", rounds.run(signal));
    },
  };
}

export interface KeeperParts {
  readonly node: string;
  readonly store: LeaseStore;
  readonly clock: Clock;
  readonly log: Logger;
  readonly files: FenceFiles;
  readonly guests: GuardedGuests;
  readonly watchdog: Watchdog;
  readonly isIdle?: () => boolean;
}

export function createKeeper(parts: KeeperParts): LeaseKeeper {
  const { files } = parts;
  const self = identifySelf();
  return new LeaseKeeper({
    ...parts,
    bootMs,
    wished: () => files.readWish(),
    report: (report) => files.writeReport({ ...report, process: self, version: PRODUCT_VERSION }),
  });
}
