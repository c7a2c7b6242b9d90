// Wires what a node does with guests of any kind: processes, order of start and stop, snapshots, backups, figures, ends.
import { datacenterOptions } from "@gpve/domain/cluster/datacenter-options.ts";
import { storageDefaults } from "@gpve/domain/cluster/storage-defaults.ts";
import { createHash } from "node:crypto";
import { given } from "@gpve/contracts/given.ts";
import { withDefaultStorage } from "@gpve/domain/backup/vzdump-defaults.ts";
import type { GuestType } from "@gpve/domain/guest/guest-kinds.ts";
import type { GuestEnd, GuestRuntime } from "@gpve/domain/node/runtime.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { VM_TYPE } from "@gpve/domain/vm/vm-type.ts";
import { spawnHolding } from "@gpve/kit/spawn.ts";
import { adoptGuests } from "./application/guest/adopt-guests.ts";
import { allGuestsOperations } from "./application/guest/all-guests.ts";
import { backupOperation } from "./application/guest/backup/backup-operation.ts";
import type { BackupCounts } from "./application/guest/backup/backup-counts.ts";
import { DisownedGuests } from "./application/guest/disowned-guests.ts";
import { watchEnds } from "./application/guest/guest-end.ts";
import { moveReceiver } from "./application/guest/receive-guests.ts";
import type { MoveReceiver } from "@gpve/domain/guest/move-channel.ts";
import { RecentEnds } from "./application/guest/recent-ends.ts";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import { ClusterGuests } from "./application/guest/cluster-guests.ts";
import { startAfterBoot } from "./application/guest/start-after-boot.ts";
import { registerSnapshots } from "./application/guest/snapshot-operations.ts";
import type { FenceSetting } from "./application/ha/fence-setting.ts";
import { composeHa, type ComposedHa } from "./compose-ha.ts";
import { WatchedGuests } from "./application/guest/watched-guests.ts";
import { GuestStatisticsFiles } from "./infrastructure/rrd/guest-statistics.ts";
import { SAMPLE_EVERY_MS } from "./infrastructure/rrd/node-statistics.ts";
import type { ComposedKind, ComposeKind, KindParts } from "./compose-kind.ts";
import { findSupervisor, type SupervisorParts } from "./infrastructure/supervisor/find-supervisor.ts";
import { nodeKinds } from "./node-kinds.ts";
import { readVzdumpFile } from "./infrastructure/backup/vzdump-file.ts";
import { hostBackupTools } from "./infrastructure/backup/host-backup-tools.ts";
import { needsUserNamespaces } from "./infrastructure/guest-process/confinement.ts";
import type { SupervisedGuest } from "./infrastructure/guest-process/supervised-guest.ts";
import { SupervisedQemus } from "./infrastructure/guest-process/supervised-qemus.ts";
import { bootedSince } from "./infrastructure/vm/boot-marker.ts";
import { createBackupHandlers } from "./presentation/pve/backup/backup-handlers.ts";
import { createAllGuestsHandlers } from "./presentation/pve/guest/all-guests-handlers.ts";

export interface GuestParts extends Omit<
  KindParts,
  "supervisor" | "processes" | "backupTools" | "sampled" | "history" | "sha1Hex" | "mayRun"
> {
  readonly supervisor: SupervisorParts["supervisor"];
  readonly backups: Pick<BackupCounts, "counting" | "run">;
  /** undefined = nothing here is under HA, as in tests of one node. */
  readonly fence: FenceSetting | undefined;
  /** undefined = there is no such guest, or nobody could be asked yet. */
  readonly guestType: (vmid: number) => GuestType | undefined;
  /** What uids of guests are made from, alike on all nodes; undefined = this node's own. */
  readonly uidSeed: string | undefined;
  /** Told how long each look at all running guests took. */
  readonly observeMonitoring: (seconds: number) => void;
}

type Kinds = { readonly [K in keyof typeof nodeKinds]: Awaited<ReturnType<(typeof nodeKinds)[K]>> };

export interface ComposedGuests {
  readonly handlers: PveHandlers;
  readonly kinds: Kinds;
  readonly ha: ComposedHa | undefined;
  /** Who runs now, and what it uses. */
  readonly rows: () => readonly GuestRuntime[];
  /** How those that ended lately came to their end. */
  readonly ends: () => readonly GuestEnd[];
  /** Which of them run, as a text that changes with them. */
  readonly running: () => string;
  /** Finds what runs already; before operations recover. */
  adopt(): Promise<void>;
  /** Keeps figures, and ends what another node has taken over, until the signal fires. */
  lookAfter(signal: AbortSignal): Promise<void>;
  /** Called when a guest has ended, by whatever cause. */
  onGuestEnd(listener: () => void): void;
  /** Once per boot of the machine, when operations run. */
  startAfterBoot(): Promise<void>;
  /** Takes guests from other nodes, each by the row of its kind. */
  readonly receiver: MoveReceiver;
  close(): void;
}

export async function composeGuests(parts: GuestParts): Promise<ComposedGuests> {
  const { data, node, records, clock, log, engine, storages } = parts;
  const supervisor = await findSupervisor(parts);
  const looksAfter: { ha?: ComposedHa } = {};
  const processes = new SupervisedQemus({
    dataFolder: data.path,
    instanceId: data.instanceId,
    ...given({ uidSeed: parts.uidSeed }),
    supervisor: supervisor.path,
    log,
    clock,
    guardOf: (id) => looksAfter.ha?.guardOf(id),
    userNamespaces: await needsUserNamespaces(parts.exec),
  });
  const backupTools = hostBackupTools({
    exec: parts.exec,
    tools: parts.imageTools,
    clock,
    socketFolder: data.file("run"),
    hold: (connection) => spawnHolding(supervisor.path, ["hold"], connection),
  });
  const statistics = new GuestStatisticsFiles(data.file("agent"));
  const kinds = await composeKinds({
    ...parts,
    supervisor,
    processes,
    backupTools,
    sha1Hex: (text) => createHash("sha1").update(text).digest("hex"),
    mayRun: (vmid) => looksAfter.ha?.mayRun(vmid) ?? true,
    sampled: (vmid) => watch.sampled(vmid),
    history: (vmid, timeframe, cf) => statistics.rows(vmid, timeframe, cf, clock.now()),
  });
  const rows: readonly ComposedKind[] = Object.values(kinds);
  const kindOf = (vmid: number): ComposedKind =>
    rows.find(({ type }) => type === parts.guestType(vmid)) ?? kinds[VM_TYPE];
  const watch: WatchedGuests = new WatchedGuests({
    node,
    samplers: rows.map(({ sampler }) => sampler),
    clock,
    records,
    statistics,
    log,
    observe: parts.observeMonitoring,
    everyMs: SAMPLE_EVERY_MS,
  });
  const ha = composeNodeHa(parts, kindOf, () => processes.list() as readonly SupervisedGuest[]);
  if (ha !== undefined) looksAfter.ha = ha;
  const ordered = allGuestsOperations({
    kinds: rows.map((kind) => kind.ordered),
    engine,
    isManaged: (vmid) => ha?.isManaged(vmid) === true,
    workers: () => Number(datacenterOptions(records())["max_workers"] ?? parts.facts().cpu.cpus),
  });
  for (const operation of ordered) engine.register(operation);
  for (const { snapshots } of rows) registerSnapshots(engine, snapshots);
  engine.register(
    parts.backups.counting(
      backupOperation(
        { clock, storages, backupOf: (vmid) => kindOf(vmid).backup },
        backupTools,
        (vmid, work) => engine.withResource(`vm/${vmid}`, {}, work),
      ),
    ),
  );
  const ofEach = rows.flatMap(({ atProcessEnd = [] }) => atProcessEnd);
  const disowned = new DisownedGuests({
    node,
    processes,
    records,
    withGuest: (vmid, work) => engine.withResource(`vm/${vmid}`, {}, work),
    clock,
    log,
  });
  const ends = new RecentEnds(processes, (id) => disowned.ownerOf(id));
  watchEnds({ processes, log, kindOf, ofEach });
  return {
    kinds,
    ha,
    handlers: {
      ...createAllGuestsHandlers({ engine }),
      ...createBackupHandlers({
        host: { configs: new ClusterGuests(parts), storages, clock, clusterName: parts.clusterName },
        tools: backupTools,
        engine,
        poolMembers: (pool) => records().collection(poolsDef).get(pool)?.value.vms,
        settings: () =>
          withDefaultStorage(
            readVzdumpFile(data.file("vzdump.conf"), log),
            storageDefaults(records()).backup,
          ),
      }),
      ...Object.assign({}, ...rows.map(({ handlers }) => handlers)),
    },
    receiver: moveReceiver({ records, clock, kinds: rows }),
    rows: () => watch.rows(),
    ends: () => ends.list(),
    running: () => watch.running(),
    onGuestEnd: (listener) => void processes.onExit(listener),
    async adopt() {
      for (const kind of rows) await kind.prepare?.();
      const running = await adoptGuests({ processes, log });
      for (const kind of rows) await kind.adopted?.(running);
    },
    lookAfter: async (signal) => {
      await Promise.all([
        watch.run(signal),
        disowned.run(signal),
        parts.backups.run(clock, signal),
        ...rows.map((kind) => kind.run?.(signal)),
      ]);
    },
    startAfterBoot: () => {
      const wasBooted = (): boolean => bootedSince(data.file("agent", "boot-id"), parts.facts().bootId);
      return startAfterBoot({ node, wasBooted, engine, log });
    },
    close: () => {
      statistics.close();
      for (const kind of rows) kind.close?.();
      processes.leave();
    },
  };
}

function composeNodeHa(
  parts: GuestParts,
  kindOf: (vmid: number) => ComposedKind,
  running: () => readonly SupervisedGuest[],
): ComposedHa | undefined {
  const { fence } = parts;
  if (fence === undefined) return undefined;
  return composeHa({
    ...parts,
    fence,
    running,
    kindOf: (vmid) => kindOf(vmid).ordered,
  });
}

async function composeKinds(parts: KindParts): Promise<Kinds> {
  const composed: Record<string, ComposedKind> = {};
  const table: Readonly<Record<string, ComposeKind>> = nodeKinds;
  for (const [type, compose] of Object.entries(table)) composed[type] = await compose(parts);
  return composed as Kinds;
}
