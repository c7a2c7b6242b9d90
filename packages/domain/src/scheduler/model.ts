// What the scheduler knows and is asked. Plain data: the same for VMs, CTs and parts of virtual clusters, in production
// and in simulations.
import { STRATEGY_NAMES } from "@gpve/contracts/v1/scheduling.ts";
import type { Taint, TaintEffect } from "../node/taint.ts";

export const STRATEGIES = STRATEGY_NAMES;

export type Strategy = (typeof STRATEGIES)[number];

export type PlacementKind = "vm" | "ct" | "vc";

export interface Toleration {
  /** Absent: every taint. */
  readonly key?: string;
  /** Default: Equal where there is a value, Exists where there is none. */
  readonly operator?: "Equal" | "Exists";
  readonly value?: string;
  /** Absent: every effect. */
  readonly effect?: TaintEffect;
}

/** Guests are selected by label selectors; what they are besides has labels too (`guestLabels`). */
export interface GuestTerm {
  readonly guests: string;
  /** Nodes with the same value of this label are one place. Default: every node is a place of its own. */
  readonly topologyKey?: string;
}

export interface SpreadRule extends Partial<GuestTerm> {
  readonly maxSkew: number;
  /** Default: DoNotSchedule. */
  readonly whenUnsatisfiable?: "DoNotSchedule" | "ScheduleAnyway";
}

export interface Weighted {
  /** 1 to 100. */
  readonly weight: number;
}

export interface GuestAffinity {
  readonly required?: readonly GuestTerm[];
  readonly preferred?: readonly (GuestTerm & Weighted)[];
}

export interface SchedulingRules {
  readonly strategy?: Strategy;
  /** Who waits for room: higher first. Default 0. */
  readonly priority?: number;
  /** How long a request waits for room. Default: it is refused at once. */
  readonly waitSeconds?: number;
  readonly nodeAffinity?: {
    /** Label selectors of nodes; one of them must match. */
    readonly required?: readonly string[];
    readonly preferred?: readonly ({ readonly nodes: string } & Weighted)[];
  };
  readonly affinity?: GuestAffinity;
  readonly antiAffinity?: GuestAffinity;
  readonly tolerations?: readonly Toleration[];
  readonly spread?: readonly SpreadRule[];
  /** Of ha-spread. */
  readonly topologyKey?: string;
  readonly maxSkew?: number;
  /** Of utilization: percent of a node that is filled before the next. */
  readonly utilizationThreshold?: number;
  /** Of gpu-aware: a part of the model's name, and how many. */
  readonly gpuType?: string;
  readonly gpuCount?: number;
  /** Of latency: how far from the guests that `near` selects, at most. */
  readonly maxHops?: number;
  readonly near?: string;
}

/** What it takes of a node. */
export interface Demand {
  readonly cpu: number;
  /** Bytes. */
  readonly memory: number;
  readonly gpus?: number;
}

/** What a node must have for it to run there at all. */
export interface Needs {
  /** Bytes on each storage; 0 = it must be reachable. */
  readonly storages?: Readonly<Record<string, number>>;
  readonly content?: "images" | "rootdir";
  readonly bridges?: readonly string[];
  /** CPU flags that its CPU model promises. */
  readonly cpuFlags?: readonly string[];
  readonly cpuModel?: string;
  /** Its NUMA cells: how many, each with its share of CPUs and memory. */
  readonly numaCells?: number;
  /** The machine's own architecture: what is not emulated. */
  readonly architecture?: string;
}

export interface PlacementRequest {
  /** vm/100, ct/101, vc/blue/control-plane-0. */
  readonly id: string;
  readonly kind: PlacementKind;
  readonly demand: Demand;
  readonly needs: Needs;
  /** By which rules find it. */
  readonly labels: Readonly<Record<string, string>>;
  readonly rules: SchedulingRules;
}

/** One that has its node. */
export interface PlacedGuest {
  readonly request: PlacementRequest;
  readonly node: string;
  /** It takes what it may take; what does not run counts only where nodes are compared. */
  readonly counts: boolean;
  /** What of it only this node has, so that it cannot be started elsewhere when the node is lost: a disk. */
  readonly tied?: string;
}

export interface NodeStorage {
  readonly availBytes: number;
  /** All nodes that have it have the same room. */
  readonly shared?: true;
  readonly content: readonly string[];
}

export interface SchedulerNode {
  readonly name: string;
  /** undefined = it can be told to run something; else why not. */
  readonly away?: string;
  readonly unschedulable: boolean;
  /** As good as cordoned: it is being emptied, or about to be switched off. */
  readonly inMaintenance?: true;
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: readonly Taint[];
  /** With reserve and overcommit taken into account. */
  readonly allocatable: { readonly cpu: number; readonly memory: number };
  /** CPUs that it really has. */
  readonly cpus: number;
  readonly gpus: readonly string[];
  readonly storages: Readonly<Record<string, NodeStorage>>;
  readonly bridges: readonly string[];
  /** Flags that guests can have there; undefined = not known. */
  readonly cpuFlags?: readonly string[];
  readonly architecture?: string;
  /** Its NUMA cells; empty = not known. */
  readonly numa: readonly { readonly cpus: number; readonly memory: number }[];
}

export const HOSTNAME_LABEL = "gpve.io/hostname";
export const TENANT_LABEL = "gpve.io/tenant";
export const TOPOLOGY_PREFIX = "topology.gpve.io/";

/** What of a guest can be selected besides its own labels. */
export function guestLabels(guest: {
  readonly kind: PlacementKind;
  readonly name: string;
  readonly vmid?: number;
  readonly tenant?: string;
  readonly tags?: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
}): Readonly<Record<string, string>> {
  return {
    ...guest.labels,
    ...Object.fromEntries((guest.tags ?? []).map((tag) => [`tag.gpve.io/${tag}`, ""])),
    "gpve.io/kind": guest.kind,
    "gpve.io/name": guest.name,
    ...(guest.vmid === undefined ? {} : { "gpve.io/vmid": String(guest.vmid) }),
    ...(guest.tenant === undefined ? {} : { [TENANT_LABEL]: guest.tenant }),
  };
}
