// What agents tell servers about themselves, several times a minute. Lives in memory only.
import type { GuestType } from "../guest/guest-kinds.ts";
import type { StorageDefinition } from "../storage/definition.ts";
import type { NodeDefaults } from "../vm/spec/vm-defaults.ts";
import type { StandbyRow, VirtualClusterRuntime } from "../vcluster/vcluster-runtime.ts";

export interface NodeUsage {
  readonly cpu: number;
  readonly wait: number;
  readonly loadavg: readonly [number, number, number];
  readonly memory: {
    readonly total: number;
    readonly used: number;
    readonly free: number;
    readonly available: number;
  };
  readonly swap: { readonly total: number; readonly used: number; readonly free: number };
  readonly rootfs: {
    readonly total: number;
    readonly used: number;
    readonly free: number;
    readonly avail: number;
  };
  readonly uptimeSeconds: number;
  /** Bytes of all physical interfaces since boot. */
  readonly netIn: number;
  readonly netOut: number;
}

/** One thing a host can or cannot do, found by trying. */
export interface Capability {
  /** "kvm", "qemu", "nftables", "dm-thin", ... */
  readonly name: string;
  readonly available: boolean;
  /** Why not, with evidence; or what was found ("QEMU 7.2.17"). */
  readonly detail: string;
  /** What a person can do about it. Only when not available. */
  readonly fix?: string;
}

/** CPU flags of a node's QEMU. */
export interface CpuFlagFacts {
  /** Everything `-cpu` takes. */
  readonly understood: readonly string[];
  /** Those a guest can have under each accelerator. */
  readonly tcg: readonly string[];
  readonly kvm: readonly string[];
}

export interface BridgeFacts {
  readonly name: string;
  readonly up: boolean;
  readonly vlanAware: boolean;
  readonly mtu: number;
  /** Of the host on it, "10.0.0.1/24". */
  readonly addresses: readonly string[];
  /** Interfaces of the host in it, without guests'. */
  readonly ports: readonly string[];
}

export interface NodeFacts {
  readonly hostname: string;
  readonly kernel: {
    readonly sysname: string;
    readonly release: string;
    readonly version: string;
    readonly machine: string;
  };
  readonly osImage: string;
  readonly bootMode: "efi" | "legacy-bios";
  readonly secureBoot: boolean;
  readonly bootId: string;
  readonly cpu: {
    readonly model: string;
    readonly vendor: string;
    readonly sockets: number;
    readonly cores: number;
    readonly cpus: number;
    readonly mhz: string;
    readonly flags: string;
    readonly hvm: boolean;
    readonly userHz: number;
  };
  readonly memoryBytes: number;
  /** Its NUMA cells; absent = not known, or one. */
  readonly numa?: readonly { readonly cpus: number; readonly memoryBytes: number }[];
  readonly disks: readonly {
    readonly name: string;
    readonly sizeBytes: number;
    readonly model: string;
    readonly rotational: boolean;
  }[];
  readonly bridges: readonly string[];
  /** The same, with what is known of each; older agents do not say. */
  readonly networks?: readonly BridgeFacts[];
  readonly gpus: readonly {
    readonly uuid: string;
    readonly model: string;
    readonly memoryBytes: number;
    readonly driver: string;
  }[];
  /** What its administrator has described for containers (CDI), by kind; absent: nothing. */
  readonly devices?: readonly { readonly kind: string; readonly count: number }[];
  readonly cgroupVersion: 1 | 2;
  readonly qemu?: {
    readonly version: string;
    readonly binary: string;
    readonly machines: readonly string[];
    readonly cpuFlags?: CpuFlagFacts;
  };
  /** "kvm" only after a guest really ran under it. */
  readonly accelerator: "kvm" | "tcg" | "none";
  readonly capabilities: readonly Capability[];
}

/** Cheap live figures of one guest, for lists. Filled by the vm and container modules. */
export interface GuestRuntime {
  readonly vmid: number;
  readonly type: GuestType;
  readonly status: "running" | "stopped";
  readonly uptimeSeconds: number;
  readonly cpu: number;
  readonly mem: number;
  readonly memhost?: number;
  readonly diskread: number;
  readonly diskwrite: number;
  readonly netin: number;
  readonly netout: number;
  /** Bytes by drive (`scsi0`) and by tap (`tap100i0`), as the guest counts them; servers show them as metrics. */
  readonly drives?: Readonly<Record<string, { readonly read: number; readonly written: number }>>;
  readonly nics?: Readonly<Record<string, { readonly netin: number; readonly netout: number }>>;
  /** What DHCP gave its cards, in their order. */
  readonly addresses?: readonly string[];
  readonly extra?: Readonly<Record<string, unknown>>;
}

export interface StorageRuntime {
  readonly storage: string;
  readonly active: boolean;
  readonly totalBytes: number;
  readonly usedBytes: number;
  readonly availBytes: number;
  /** Why it cannot be used. */
  readonly problem?: string;
}

/** How a guest's process came to its end. */
export interface GuestEnd {
  readonly vmid: number;
  /** Milliseconds, by the node's clock. */
  readonly at: number;
  readonly isCrash: boolean;
  readonly why: string;
  /** The node that has the guest: it was ended here for that. */
  readonly owner?: string;
}

export interface NodeReserve {
  /** CPUs and bytes that are the machine's own. */
  readonly cpu: number;
  readonly memoryBytes: number;
  readonly overcommit: { readonly cpu: number; readonly memory: number };
}

/** One report of an agent's status stream. */
export interface NodeReport {
  readonly node: string;
  readonly at: number;
  readonly agentVersion: string;
  readonly facts?: NodeFacts;
  readonly usage: NodeUsage;
  readonly guests: readonly GuestRuntime[];
  readonly storages: readonly StorageRuntime[];
  /** What the machine keeps for itself, and how far the rest is promised more than once. */
  readonly reserve?: NodeReserve;
  /** What VMs of this node get that do not say. */
  readonly defaults?: NodeDefaults;
  /** Storages that this node's configuration names. */
  readonly declaredStorages?: readonly StorageDefinition[];
  readonly vclusters?: readonly VirtualClusterRuntime[];
  /** Clusters of other nodes, whose stores are followed here. */
  readonly standbys?: readonly StandbyRow[];
  /** Of guests that ended lately, oldest first. Told again in later reports. */
  readonly ends?: readonly GuestEnd[];
}

/** What its agent and this server made out when it last said hello. */
export interface AgentSoftware {
  readonly version: string;
  readonly serverVersion: string;
  /** The protocol that both speak; absent = none, and `refused` says why. */
  readonly protocol?: number;
  readonly refused?: string;
}

export type NodeHealth = "online" | "offline" | "unknown";

/** Servers' memory of all nodes. */
export interface NodeBoard {
  /** Known nodes, sorted by name. */
  list(): readonly NodeView[];
  get(node: string): NodeView | undefined;
  /** Grows with every change; lists derived from the board may be cached by it. */
  generation(): number;
}

export interface NodeView {
  readonly node: string;
  /** As its record has it: it stays while the node is in the cluster. */
  readonly nodeid: number;
  readonly health: NodeHealth;
  readonly address: string;
  readonly lastSeen: number;
  readonly certFingerprint: string;
  readonly report: NodeReport | undefined;
  readonly facts: NodeFacts | undefined;
  /** Absent: its agent is part of this process, or has not said hello since this server started. */
  readonly software?: AgentSoftware;
}
