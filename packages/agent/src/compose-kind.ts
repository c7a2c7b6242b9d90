// What the composition of a kind of guest is given, and what it gives back.
import type { NodeDefaults } from "@gpve/domain/vm/spec/vm-defaults.ts";
import type { BackupTools } from "@gpve/domain/backup/backup-ports.ts";
import type { GuestRuntime, NodeFacts } from "@gpve/domain/node/runtime.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { HostDevices } from "@gpve/domain/vm/host/host-devices.ts";
import type { HostMemory } from "@gpve/domain/vm/host/host-memory.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { GuestStorages } from "./application/guest/guest-storages.ts";
import type { MoveServers } from "@gpve/domain/guest/move-servers.ts";
import type { ReplicaNotes } from "@gpve/domain/replication/replica.ts";
import type { NodeKind } from "./application/guest/node-kind.ts";
import type { MoveOthers } from "./application/guest/move-ports.ts";
import type { RrdConsolidation, RrdRow, RrdTimeframe } from "./infrastructure/rrd/rrd-file.ts";
import type { MoveKeys } from "@gpve/domain/guest/move-channel.ts";
import type { findSupervisor } from "./infrastructure/supervisor/find-supervisor.ts";
import type { SupervisedQemus } from "./infrastructure/guest-process/supervised-qemus.ts";
import type { PathGuard } from "./infrastructure/host/path-guard.ts";
import type { ImageTools } from "./infrastructure/image-tools/image-tools.ts";

/** Other nodes, as guests that move need them. */
export interface MoveParts {
  /** Asked whose a guest is. */
  readonly servers: MoveServers;
  readonly peers: MoveOthers["peers"];
  readonly keys: MoveKeys;
}

export interface KindParts {
  readonly data: DataDir;
  readonly guard: PathGuard;
  readonly node: string;
  readonly records: () => Records;
  readonly facts: () => NodeFacts;
  /** Resolves when it is known whether guests run under KVM. */
  readonly guestsTried: () => Promise<void>;
  /** What a VM of this node gets that does not say. */
  readonly defaults: () => NodeDefaults;
  readonly storages: GuestStorages & { imageStorages(): readonly string[] };
  readonly engine: OperationEngine;
  /** undefined = this node is in no cluster. */
  readonly clusterName: () => string | undefined;
  readonly exec: Exec;
  readonly imageTools: ImageTools;
  readonly log: Logger;
  readonly clock: Clock;
  readonly qemuBinary: string;
  readonly devices: HostDevices;
  readonly memory: HostMemory;
  /** What DHCP gave a card; undefined = nothing that is known here. */
  readonly leasedAddress: (mac: string) => string | undefined;
  /** Bytes that the host has and uses. */
  readonly memoryUse: () => Promise<{ readonly total: number; readonly used: number }>;
  /** Holds each guest; `missing` rejects where there is none. */
  readonly supervisor: Awaited<ReturnType<typeof findSupervisor>>;
  /** Processes of all kinds, and their helpers. */
  readonly processes: SupervisedQemus;
  readonly backupTools: BackupTools;
  readonly sha1Hex: (text: string) => string;
  /** Of the last look at all guests. */
  readonly sampled: (vmid: number) => GuestRuntime | undefined;
  readonly history: (vmid: number, timeframe: RrdTimeframe, consolidation: RrdConsolidation) => RrdRow[];
  /** False while a guest under HA may not run here: this node takes the lease when one is on its way. */
  readonly mayRun: (vmid: number) => boolean;
  /** Which copies of other nodes' guests this node keeps. */
  readonly replicaNotes: ReplicaNotes;
  /** Absent: this node is by itself, and nothing moves. */
  readonly moves: MoveParts | undefined;
}

/** It has registered its own operations (create, start, stop, ...) with the engine. */
export interface ComposedKind extends NodeKind {
  readonly handlers?: PveHandlers;
}

export type ComposeKind = (parts: KindParts) => Promise<ComposedKind>;
