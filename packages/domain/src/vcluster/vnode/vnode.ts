// A worker of a virtual cluster: what it is called, where it is in the cluster's networks, how large it is.
import { addressAt, readCidr } from "../cidr.ts";
import type { DeviceCounts } from "../devices/worker-devices.ts";

export interface VnodeSize {
  readonly cpus: number;
  readonly memoryBytes: number;
}

/** Why pods keep off it, as Kubernetes has it. */
export interface VnodeTaint {
  readonly key: string;
  readonly value?: string;
  readonly effect: string;
}

/** A worker as its node keeps it. */
export interface KeptVnode {
  /** Its place in the cluster: addresses and names come from it. From 0. */
  readonly slot: number;
  readonly name: string;
  readonly size: VnodeSize;
  /** Absent: one of the cluster itself. */
  readonly pool?: string;
  /** What its pool adds to what it says of itself. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly taints?: readonly VnodeTaint[];
  /** Devices of its node that are its own, by kind; absent: none. */
  readonly devices?: DeviceCounts;
  /** Whether it shall run: what ends by itself is started again. */
  readonly isWanted: boolean;
}

/** In the order in which they are started; they are stopped in the opposite one. */
export const VNODE_PARTS = ["containerd", "kubelet", "kube-proxy"] as const;
export type VnodePart = (typeof VNODE_PARTS)[number];

export const DEFAULT_VNODE_SIZE: VnodeSize = { cpus: 2, memoryBytes: 2 * 2 ** 30 };
/** Less, and Kubernetes' own pods do not fit. */
export const LEAST_VNODE_SIZE: VnodeSize = { cpus: 0.25, memoryBytes: 256 * 2 ** 20 };
/** Addresses for workers in the subnet of one cluster on one host. */
export const MOST_VNODES = 200;
const PODS_PREFIX = 24;

export function vnodeName(slot: number): string {
  return `worker-${slot + 1}`;
}

/** Of one of the cluster itself; undefined = its name is not such a one's. */
export function slotOf(name: string): number | undefined {
  const number = /^worker-(\d+)$/.exec(name)?.[1];
  return number === undefined ? undefined : Number(number) - 1;
}

/** The addresses of a worker's pods; undefined = the cluster's network has no room for that one. */
export function podNetwork(podCidr: string, slot: number): string | undefined {
  const pods = readCidr(podCidr);
  if (pods === undefined || slot >= 2 ** (PODS_PREFIX - pods.prefix)) return undefined;
  return `${addressAt(pods, slot * 2 ** (32 - PODS_PREFIX))}/${PODS_PREFIX}`;
}

/** "2", "500m", 2: in thousandths, as Kubernetes counts them */
export function readCpus(value: unknown): number | undefined {
  const match = /^(\d+(?:\.\d+)?)(m?)$/.exec(String(value));
  if (match === null) return undefined;
  const thousandths = Math.round(Number(match[1]) * (match[2] === "m" ? 1 : 1000));
  return thousandths > MOST_CPUS * 1000 ? undefined : thousandths / 1000;
}

const UNITS: Readonly<Record<string, number>> = {
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
};
/** More is a mistake. */
const MOST_CPUS = 1_000_000;

/** "4Gi", "512Mi", "2G", bytes */
export function readBytes(value: unknown): number | undefined {
  const match = /^(\d+(?:\.\d+)?)([kMGT]|[KMGTP]i)?$/.exec(String(value));
  const unit = UNITS[match?.[2] ?? ""];
  if (match === null || unit === undefined) return undefined;
  const bytes = Math.round(Number(match[1]) * unit);
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}
