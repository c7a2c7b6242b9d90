// What the manager, the local managers and their environment say to each other. Plain data: it is stored as it stands.

export const serviceStates = [
  "request_start",
  "request_start_balance",
  "started",
  "request_stop",
  "stopped",
  "migrate",
  "relocate",
  "freeze",
  "fence",
  "recovery",
  "error",
] as const;
export type ServiceState = (typeof serviceStates)[number];

export type NodeState = "online" | "maintenance" | "unknown" | "fence" | "gone";

export type WantedState = "started" | "stopped" | "disabled" | "ignored";

/** What the operator configured for a service: where its configuration lives and what he wants of it. */
export interface ServiceConfig {
  readonly node: string;
  readonly state: WantedState;
  readonly maxRestart: number;
  readonly maxRelocate: number;
  readonly failback: boolean;
  readonly autoRebalance: boolean;
}

/** A request to the manager that waits on its service until it can be carried out, or its state has changed. */
export type ServiceCommand =
  | { readonly kind: "migrate" | "relocate"; readonly target: string }
  | { readonly kind: "stop"; readonly timeoutS: number };

/** What the manager knows of a service. `uid` names one order to the local manager, which carries it out once. */
export interface ServiceStatus {
  state: ServiceState;
  node: string;
  uid: string;
  target?: string | undefined;
  timeoutS?: number | undefined;
  /** Nodes on which a start failed since it last worked. */
  failedNodes?: string[] | undefined;
  /** The node it left because of maintenance, and to which it goes back. */
  maintenanceNode?: string | undefined;
  command?: ServiceCommand | undefined;
}

export type DisarmMode = "freeze" | "ignore";

export interface ManagerStatus {
  masterNode?: string | undefined;
  nodes: Record<string, NodeState>;
  services: Record<string, ServiceStatus>;
  /** Nodes for which the operator asked for maintenance. */
  maintenance: Record<string, true>;
  /** Tokens of leases that were taken from nodes, once it is written down what became of their guests. */
  settled?: Record<string, number> | undefined;
  disarm?: { mode: DisarmMode; state: "pending" | "disarmed" } | undefined;
}

export type LocalMode = "active" | "maintenance" | "restart" | "shutdown";
export type LocalState = "wait_for_agent_lock" | "active" | "lost_agent_lock" | "maintenance";
export type CoordinatorState = "wait_for_quorum" | "master" | "slave" | "lost_manager_lock";

export type ExitCode = "success" | "error" | "tryAgain" | "wrongNode" | "ignored";

/** What a local manager reports: the result of each order by its uid. */
export interface LocalStatus {
  state: LocalState;
  mode: LocalMode;
  /**
   * False while guests of ours run there without lease and watchdog, as when disarmed: should such a node be cut off,
   * nothing would ever stop them, and its free lease proves nothing.
   */
  guarded: boolean;
  results: Record<string, { readonly sid: string; readonly exit: ExitCode }>;
}

export type ShutdownPolicy = "freeze" | "failover" | "conditional" | "migrate";
export type SchedulerMode = "basic" | "static" | "dynamic";

export interface HaSettings {
  readonly shutdownPolicy: ShutdownPolicy;
  readonly scheduler: SchedulerMode;
  readonly rebalanceOnStart: boolean;
  readonly autoRebalance: AutoRebalance | undefined;
}

export interface AutoRebalance {
  /** Standard deviation over mean of the nodes' loads above which something is to be done. */
  readonly threshold: number;
  /** How much of the imbalance a move must take away. */
  readonly margin: number;
  readonly holdRounds: number;
  readonly method: "bruteforce" | "topsis";
}

/**
 * The times fencing stands on. A node that cannot renew is reset after `watchdogS`; its lock passes on after `lockS`,
 * which is longer: whoever holds the lock of a node knows that nothing runs there.
 */
export interface HaTimings {
  readonly lockS: number;
  readonly watchdogS: number;
  readonly fenceDelayS: number;
  readonly idleRoundsLocal: number;
  readonly idleRoundsCluster: number;
}

export const defaultTimings: HaTimings = {
  lockS: 120,
  watchdogS: 60,
  fenceDelayS: 60,
  idleRoundsLocal: 60,
  idleRoundsCluster: 90,
};

export interface Load {
  readonly cpu: number;
  readonly memory: number;
}

export const managerLock = "ha_manager_lock";
export const agentLock = (node: string): string => `ha_agent_${node}_lock`;

export function emptyManagerStatus(): ManagerStatus {
  return { nodes: {}, services: {}, maintenance: {} };
}
