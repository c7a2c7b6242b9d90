// Everything that was seen at one moment: guests, what runs in them, etcd and Kubernetes. What is decided is decided from
// this alone, so that it does not matter who did what before, or where he was stopped.
import type { SeenMarks } from "../kubernetes/node-marks.ts";
import type { GuestConfig, GuestPlace } from "../driver/driver.ts";

export interface SeenGuest {
  readonly provider: string;
  readonly place: GuestPlace;
  readonly isRunning: boolean;
  readonly config: GuestConfig;
  /** Why its configuration is not known: its node is away. */
  readonly unread?: string;
}

/** A configuration by its parts that change apart from each other. */
export interface SeenConfig {
  /** A digest of everything but versions of Kubernetes. */
  readonly rest: string;
  readonly kubelet: string | undefined;
  /** Of the API server, the controller manager and the scheduler; workers have none. */
  readonly components: string | undefined;
}

export interface SeenMember {
  /** Decimal. */
  readonly id: string;
  readonly hostname: string;
  readonly isLearner: boolean;
}

/** etcd as one of its members sees it. */
export interface SeenEtcd {
  readonly id: string;
  readonly isLeader: boolean;
  /** Its errors and alarms. */
  readonly problems: readonly string[];
  readonly members: readonly SeenMember[];
}

/** What the machine itself says about a configuration that differs from its own. */
export interface SeenChange {
  readonly needsReboot: boolean;
  /** Where it differs; never with secrets. */
  readonly differences: readonly string[];
}

export interface SeenRoute {
  readonly gateway: string;
  readonly link: string;
  /** The smaller one is taken. */
  readonly priority: number;
}

/** As the machine tells it; what it did not tell is not there. */
export interface SeenNetwork {
  /** The name it has, whatever its configuration says. */
  readonly announced?: string;
  readonly defaultRoutes?: readonly SeenRoute[];
}

export type SeenTalos =
  /** The guest does not run. */
  | { readonly state: "off" }
  | { readonly state: "silent"; readonly reason: string }
  /** It answers, but it is another machine or another cluster's. */
  | { readonly state: "foreign"; readonly reason: string }
  | { readonly state: "maintenance"; readonly version: string }
  | {
      readonly state: "configured";
      readonly version: string;
      /** Of its image; absent: no factory made it, or it does not tell. */
      readonly schematic?: string;
      readonly isReady: boolean;
      readonly unmet: readonly string[];
      readonly config: SeenConfig;
      readonly change?: SeenChange;
      /** undefined: it is no member. */
      readonly etcd: SeenEtcd | undefined;
      /** etcd's service as the machine names its state; "Preparing" while it has no data. */
      readonly etcdService: string;
      readonly network?: SeenNetwork;
    };

export type Configured = Extract<SeenTalos, { state: "configured" }>;

export interface SeenMachine {
  readonly name: string;
  readonly hostname: string;
  readonly role: "controlplane" | "worker";
  /** undefined: there is none. */
  readonly guest: SeenGuest | undefined;
  readonly talos: SeenTalos;
  /** No platform shows a guest of it, and yet it answers: whoever asks may not see it, or its tag is gone. */
  readonly isHidden?: true;
  /** Of one that is no longer in the file, as it was written down: its guest may ask a DHCP server. */
  readonly address?: string;
  /** What it was before it was stopped; only plans know that. */
  readonly before?: Configured;
}

export interface SeenNode {
  readonly name: string;
  readonly isReady: boolean;
  readonly isCordoned: boolean;
  /** Cordoned by us, so that we may take it back. */
  readonly isOurCordon: boolean;
  /** Without the "v". */
  readonly kubelet: string;
  /** Pods that a drain would have to move; counted on cordoned nodes only. */
  readonly evictable: number;
  /** Absent: it has none. */
  readonly marks?: SeenMarks;
}

export interface SeenAddon {
  readonly digest: string;
  readonly isHealthy: boolean;
}

export interface SeenKubernetes {
  readonly nodes: readonly SeenNode[];
  readonly addons: ReadonlyMap<string, SeenAddon>;
}

/** Ours by tag and identity. */
export interface SeenTemplate {
  readonly name: string;
  readonly provider: string;
  readonly place: GuestPlace;
  /** Until then it is a guest like any other, which somebody was about to make a template of. */
  readonly isSealed: boolean;
  readonly config: GuestConfig;
  /** VMIDs of guests whose disks read from its own, whoever made them. */
  readonly clones: readonly number[];
}

export interface World {
  readonly now: number;
  /** By provider and, where nodes do not share them, node: volumes of images that are there. */
  readonly images: ReadonlyMap<string, readonly string[]>;
  /** Providers whose nodes share images. */
  readonly sharingImages: ReadonlySet<string>;
  readonly templates: readonly SeenTemplate[];
  /** The load balancer's machine, ours by tag and identity. */
  readonly balancer?: SeenGuest | undefined;
  /** By provider: VMIDs that somebody has. */
  readonly vmids: ReadonlyMap<string, ReadonlySet<number>>;
  /** Providers whose nodes share machines' disks. */
  readonly sharingDisks: ReadonlySet<string>;
  /** Those of the file, and those that are ours and no longer in it. */
  readonly machines: ReadonlyMap<string, SeenMachine>;
  /** undefined: its API does not answer. */
  readonly kubernetes: SeenKubernetes | undefined;
  /** When the last verified snapshot of etcd was taken. */
  readonly snapshotAt: number | undefined;
}

export function imagePlace({ sharingImages }: World, provider: string, host: string): string {
  return sharingImages.has(provider) ? provider : `${provider}/${host}`;
}

export function configured(machine: SeenMachine | undefined): Configured | undefined {
  return machine?.talos.state === "configured" ? machine.talos : undefined;
}

export const controlPlanes = ({ machines }: World): readonly SeenMachine[] =>
  [...machines.values()].filter(({ role }) => role === "controlplane");

export function nodeOf(world: World, machine: Pick<SeenMachine, "hostname">): SeenNode | undefined {
  return world.kubernetes?.nodes.find(({ name }) => name === machine.hostname);
}
