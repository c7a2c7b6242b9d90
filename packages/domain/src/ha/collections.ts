// What the cluster keeps about high availability. The manager's own status is one record; each node reports in its own.
import { AppError } from "@gpve/contracts/errors.ts";
import { fieldsOf, isObject } from "@gpve/contracts/json-object.ts";
import { guestKinds, type GuestType } from "../guest/guest-kinds.ts";
import {
  type HaTimings,
  type LocalStatus,
  type ManagerStatus,
  type WantedState,
  emptyManagerStatus,
} from "./model.ts";
import { leaseTimes } from "./node-lease.ts";

/** As the operator configured it; `vm:100` is its id. */
export interface HaResource {
  readonly sid: string;
  readonly state: WantedState;
  readonly group?: string;
  readonly maxRestart: number;
  readonly maxRelocate: number;
  readonly failback: boolean;
  readonly autoRebalance: boolean;
  readonly comment?: string;
}

export interface HaRuleRecord {
  readonly rule: string;
  readonly type: "node-affinity" | "resource-affinity";
  readonly resources: readonly string[];
  /** "n1:2,n2" */
  readonly nodes?: string;
  readonly strict?: boolean;
  readonly affinity?: "positive" | "negative";
  readonly disable?: boolean;
  readonly comment?: string;
  /** Rules are looked at in the order in which they were made. */
  readonly order: number;
}

/** What rules replaced, for clients that still speak of them. */
export interface HaGroup {
  readonly group: string;
  readonly nodes: string;
  readonly restricted: boolean;
  readonly nofailback: boolean;
  readonly comment?: string;
}

/** A line for the manager, oldest first by id. */
export interface HaCommand {
  readonly line: string;
  readonly by: string;
}

/** Which server manages. Whoever commits a round compares the revision of this record. */
export interface ManagerLease {
  /** Server process. */
  readonly holder: string;
  readonly node: string;
  readonly beat: number;
  readonly at: number;
}

/** What was decided or done, and on what grounds. */
export interface Evidence {
  /** Milliseconds since the epoch, by the writer's clock. */
  readonly at: number;
  /** A node, or the server that managed. */
  readonly by: string;
  readonly role: "manager" | "local" | "fence";
  readonly lines: readonly { readonly level: string; readonly text: string }[];
}

export const resourceCollection = { prefix: "/gpve/ha/resources/", decode: shape<HaResource>("sid") };
export const ruleCollection = { prefix: "/gpve/ha/rules/", decode: shape<HaRuleRecord>("rule") };
export const groupCollection = { prefix: "/gpve/ha/groups/", decode: shape<HaGroup>("group") };
export const commandCollection = { prefix: "/gpve/ha/commands/", decode: shape<HaCommand>("line") };
export const managerLeaseCollection = {
  prefix: "/gpve/ha/manager-lease/",
  decode: shape<ManagerLease>("holder"),
};
export const managerCollection = { prefix: "/gpve/ha/manager/", decode: decodeManagerStatus };
export const localCollection = { prefix: "/gpve/ha/local/", decode: decodeLocalStatus };
export const evidenceCollection = { prefix: "/gpve/ha/evidence/", decode: decodeEvidence };

export const MANAGER_LEASE_ID = "lease";
export const MANAGER_STATUS_ID = "status";
export const localId = (node: string): string => `${node}/status`;

/** Sorts by time; below the writer's own name. */
export function evidenceId(by: string, at: number, count: number): string {
  return `${by}/${String(at).padStart(15, "0")}-${String(count).padStart(6, "0")}`;
}

/** No node can have this name. */
export const MANAGER_EVIDENCE = ".manager";

/** Seconds, as the manager counts. It waits for a node to be away a little longer than a hiccup lasts. */
export const productionTimings: HaTimings = {
  lockS: leaseTimes.leaseMs / 1000,
  watchdogS: leaseTimes.watchdogMs / 1000,
  fenceDelayS: 2,
  idleRoundsLocal: 10,
  idleRoundsCluster: 60,
};

export function parseSid(text: string): { readonly sid: string; readonly vmid: number } {
  const match = /^(?:vm|ct):([1-9][0-9]{2,8})$/.exec(text);
  if (match === null)
    throw new AppError("request.invalid", `unable to parse resource id '${text}': use vm:ID or ct:ID`);
  return { sid: text, vmid: Number(match[1]) };
}

/** What the manager has a guest in ("started", "fence", ...); undefined: it is not under HA, or new to it. */
export function serviceState(
  sid: string,
  from: {
    readonly resources: { get(id: string): unknown };
    readonly manager: { get(id: string): { readonly value: ManagerStatus } | undefined };
  },
): string | undefined {
  if (from.resources.get(sid) === undefined) return undefined;
  return from.manager.get(MANAGER_STATUS_ID)?.value.services[sid]?.state;
}

/** Asked for by the operator, or since the node goes down under the policy `migrate`. */
export function isInMaintenance(
  node: string,
  manager: { get(id: string): { readonly value: ManagerStatus } | undefined },
): boolean {
  const status = manager.get(MANAGER_STATUS_ID)?.value;
  return status?.nodes[node] === "maintenance" || status?.maintenance[node] === true;
}

export function sidOf(guest: { readonly vmid: number; readonly type: GuestType }): string {
  return `${guestKinds[guest.type].haType}:${guest.vmid}`;
}

export function vmidOfSid(sid: string): number {
  return Number(sid.split(":")[1]);
}

function decodeManagerStatus(json: unknown): ManagerStatus {
  const status = json as Partial<ManagerStatus> | null;
  if (typeof status !== "object" || status === null) throw new Error("the HA manager's status is no object");
  return { ...emptyManagerStatus(), ...status };
}

function decodeLocalStatus(json: unknown): LocalStatus {
  const { state, mode, guarded, results = {} } = fieldsOf(json);
  const isRead =
    typeof state === "string" &&
    typeof mode === "string" &&
    typeof guarded === "boolean" &&
    isObject(results) &&
    Object.values(results).every((each) => hasTexts(each, ["sid", "exit"]));
  if (!isRead) throw new Error("a node's HA status has a shape this version does not know");
  return { state, mode, guarded, results } as LocalStatus;
}

/** One that cannot be shown would keep all others from being shown. */
function decodeEvidence(json: unknown): Evidence {
  const { at, by, role, lines } = fieldsOf(json);
  if (typeof by !== "string") throw new Error("a stored record of HA has no by");
  const isRead =
    typeof at === "number" &&
    !Number.isNaN(new Date(at).getTime()) &&
    typeof role === "string" &&
    Array.isArray(lines) &&
    lines.every((line) => hasTexts(line, ["level", "text"]));
  if (!isRead) throw new Error(`what ${by} wrote of HA has a shape this version does not know`);
  return json as Evidence;
}

function hasTexts(value: unknown, fields: readonly string[]): boolean {
  return fields.every((field) => typeof fieldsOf(value)[field] === "string");
}

function shape<T>(key: keyof T & string): (json: unknown) => T {
  return (json) => {
    const value = (json as Partial<Record<string, unknown>> | null)?.[key];
    if (typeof value !== "string") throw new Error(`a stored record of HA has no ${key}`);
    return json as T;
  };
}
