// What a process must say of the agent that it runs.
import type { FrontAddress } from "./infrastructure/vcluster/proxy/proxy-process.ts";
import type { SupervisorSource } from "./infrastructure/supervisor/build.ts";
import type { SelfProgram } from "./infrastructure/vcluster/store-process.ts";
import type { GuestType } from "@gpve/domain/guest/guest-kinds.ts";
import type { NodeReserve } from "@gpve/domain/node/runtime.ts";
import type { AccessView, Actor } from "@gpve/domain/request/context.ts";
import type { StorageDefinition } from "@gpve/domain/storage/definition.ts";
import type { TaskDirectory, TaskPublisher } from "@gpve/domain/task/ports.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { CrashInjector } from "@gpve/kit/operation/ports.ts";
import type { Metrics } from "@gpve/kit/telemetry/metrics.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { MoveParts } from "./compose-kind.ts";
import type { FenceSetting } from "./application/ha/fence-setting.ts";
import type { Declared } from "./infrastructure/facts/declared-node.ts";

export interface AgentSettings {
  readonly data: DataDir;
  readonly nodeName: string;
  /** Where tenants of virtual clusters come in: what is listened on, and by which name that is reached. */
  readonly front: FrontAddress;
  readonly accessOf: (actor: Actor | undefined) => AccessView;
  readonly publisher: TaskPublisher;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly clock?: Clock;
  readonly qemuBinary?: string;
  /** The guest supervisor, ready or to be built. */
  readonly supervisor: SupervisorSource;
  /** How this program is started again, for processes of ours that outlive us. */
  readonly self: SelfProgram;
  /** In one process: tasks of the server under the same node name. */
  readonly serverTasks?: TaskDirectory;
  /** The cluster's storages; the same object for the same definition. */
  readonly storages: () => readonly StorageDefinition[];
  /** What a server keeps of a storage apart from its definition; undefined = nothing was given. */
  readonly storageSecret?: (storage: string, name: string) => Promise<string | undefined>;
  /** undefined = there is no such guest, or nobody could be asked yet. */
  readonly guestType: (vmid: number) => GuestType | undefined;
  /** undefined = this node is in no cluster. */
  readonly clusterName: () => string | undefined;
  /** The cluster's records; throws store.unavailable while no server is in reach. */
  readonly records: () => Records;
  /** Absent: this node is by itself, and nothing moves. */
  readonly moves?: MoveParts;
  /** Of the cluster: a guest has the same uid on all its nodes, so that files they share stay its own. */
  readonly uidSeed?: string;
  /** Who keeps this node's lease on guests under HA; absent = it has none, and none can be started here. */
  readonly fence?: FenceSetting;
  /** Whether a host without a bridge gets one for its guests. */
  readonly makeNetwork?: boolean;
  /** Of DHCP servers that others run for this node's guests. */
  readonly leaseFiles?: readonly string[];
  /** What of this machine is not for guests; absent = nothing. */
  readonly reserve?: NodeReserve;
  /** What the configuration of this node says of it. */
  readonly declared?: Declared;
  /** Test compositions only. */
  readonly crash?: CrashInjector;
}
