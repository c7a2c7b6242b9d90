// All that the manager and the local managers may ask of the world, as one node sees it. Production, tests and the
// simulator each have one; nothing else differs between them.
import type { Rules } from "./rules.ts";
import type { HaSettings, HaTimings, Load, LocalStatus, ManagerStatus, ServiceConfig } from "./model.ts";

export type HaLogLevel = "info" | "notice" | "warning" | "error" | "mail";

export interface HaEnvironment {
  readonly node: string;
  readonly timings: HaTimings;
  /** Seconds; only differences mean something. */
  readonly now: () => number;
  readonly log: (level: HaLogLevel, text: string) => void;

  /** False while the shared store cannot be trusted to be current: the round is skipped. */
  readonly refresh: () => boolean;
  readonly quorate: () => boolean;
  /** Every member of the cluster, and whether it is part of the quorate side. */
  readonly members: () => ReadonlyMap<string, boolean>;
  /** Takes or renews a lease. */
  readonly lock: (name: string) => boolean;
  /** Whether a node renews a lease that nobody took from it; absent = who is to be fenced is reset by its own watchdog. */
  readonly keepsLease?: (node: string) => boolean;
  readonly unlock: (name: string) => void;
  readonly feedWatchdog: (role: "crm" | "lrm") => void;
  readonly closeWatchdog: (role: "crm" | "lrm") => void;

  readonly managerStatus: () => ManagerStatus;
  readonly saveManagerStatus: (status: ManagerStatus) => void;
  readonly localStatus: (node: string) => LocalStatus | undefined;
  readonly saveLocalStatus: (status: LocalStatus) => void;
  readonly services: () => ReadonlyMap<string, ServiceConfig>;
  readonly rules: () => Rules;
  readonly settings: () => HaSettings;
  readonly nodeCapacity: (node: string) => Load;
  /** What a service is configured for, or, measured, what it uses. */
  readonly serviceLoad: (sid: string, measured: boolean) => Load;
  /** Commands since the last call, oldest first. */
  readonly takeCommands: () => readonly string[];
  readonly hasCommands: () => boolean;
  /** Gives the configuration of a service of a fenced node to another. */
  readonly takeOver: (sid: string, from: string, to: string) => void;
  /** Takes away a lock that work of the lost node left on the guest (`isLeftover`); its name if there was one. */
  readonly clearGuestLock: (sid: string) => string | undefined;
  /** Whether a node has what the service needs; absent = every node has. Asked before it goes where nobody sent it. */
  readonly hasRoom?: (sid: string, node: string) => boolean;
  /** Whether a node is to get nothing new: it is the last resort, and whoever is there stays; absent = none is. */
  readonly isClosed?: (node: string) => boolean;
  /** Who is recovered first: the lowest number; absent = all alike. */
  readonly recoveryOrder?: (sid: string) => number;

  readonly guests: GuestActions;
}

/** Of work that takes longer than a round: asked for again in the next one, with the same question. */
export type ActionOutcome = boolean | "pending";

/** What the local manager does with the guests of its own node. */
export interface GuestActions {
  readonly isHere: (sid: string) => boolean;
  readonly isRunning: (sid: string) => boolean;
  readonly start: (sid: string) => ActionOutcome;
  readonly stop: (sid: string, timeoutS: number | undefined) => ActionOutcome;
  /** Whether the target can take it; asked before anything is stopped. */
  readonly canMove: (sid: string, target: string) => boolean;
  /**
   * Running or not, as it is; `order` is the manager's, by whose name the move is allowed. Where it was only made ready
   * (stopped, its disks within reach of the target), the manager hands its configuration over.
   */
  readonly move: (sid: string, target: string, order: string) => ActionOutcome;
  /** What stood against the last of these that failed, where that is known. */
  readonly whyNot?: (sid: string) => string | undefined;
}
