// What the work on workers needs of a node, and of the cluster that they are of.
import type { KeptCluster } from "../ports.ts";
import type { KeptVnode, VnodePart } from "./vnode.ts";

/** A pod that runs on a worker, as the worker has it: also while nobody answers for the cluster. */
export interface VnodePod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

export interface VnodeUsage {
  readonly memoryBytes: number;
  readonly cpuSeconds: number;
}

export interface VnodeHost {
  list(cluster: string): readonly KeptVnode[];
  save(cluster: string, vnode: KeptVnode): void;
  /** Network, view, cgroup, keys and programs; what is there stays. */
  start(cluster: KeptCluster, vnode: KeptVnode, signal: AbortSignal): Promise<void>;
  /** Makes again what is missing; pods run on where their worker still has its network and its view. */
  repair(cluster: KeptCluster, vnode: KeptVnode, signal: AbortSignal): Promise<void>;
  /** Ends one part and starts it again, with new settings. */
  restartPart(cluster: KeptCluster, vnode: KeptVnode, part: VnodePart): Promise<void>;
  /** Gives it the programs of its cluster's version. Its pods run on, unless it is a machine: then it is another one, on the
   * same disk. */
  exchange(cluster: KeptCluster, vnode: KeptVnode, signal: AbortSignal): Promise<void>;
  /** Ends its programs and its pods. What is on its disk stays. */
  stop(cluster: KeptCluster, vnode: KeptVnode): Promise<void>;
  /** All that is left of one that is stopped. */
  remove(cluster: KeptCluster, vnode: KeptVnode): Promise<void>;
  /** Tells the workers and the control plane of a cluster the ways to each other's pods. */
  route(cluster: KeptCluster): Promise<void>;
  /** Whether it is whole: programs, network and view. */
  isUp(cluster: KeptCluster, vnode: KeptVnode): boolean;
  pods(cluster: KeptCluster, vnode: KeptVnode): readonly VnodePod[];
  /** What it takes, with its pods. */
  usage(cluster: KeptCluster, vnode: KeptVnode): VnodeUsage;
  /** What runs its machine; undefined = it is none, or does not run. */
  accelerator(cluster: KeptCluster, vnode: KeptVnode): "kvm" | "tcg" | undefined;
  /** An empty folder for a persistent volume; one that is there stays. */
  makeVolume(cluster: KeptCluster, vnode: KeptVnode, volume: string, bytes: number): Promise<void>;
  /** Of one that is stopped and whose cluster lives on elsewhere: they are put where nobody takes them away. Answers with
   * where; undefined = it has none. */
  putVolumesAside(cluster: string, vnode: KeptVnode): string | undefined;
  /** What those of a worker were asked for, or of all workers, together. */
  volumeBytes(cluster: string, vnode?: KeptVnode): number;
  removeVolume(cluster: KeptCluster, vnode: KeptVnode, volume: string): Promise<void>;
  /** Names of those that it has. */
  volumes(cluster: string, vnode: KeptVnode): readonly string[];
  /** What its parts printed last. */
  lastWords(cluster: string, vnode: KeptVnode): readonly string[];
  /** Called when a part has ended that nobody told to. */
  onEnd(listener: (cluster: string, vnode: string, part: VnodePart | "machine", why: string) => void): void;
}

/** Devices of a node that its workers have; each has one owner. */
export interface VnodeDeviceHost {
  /** Throws, with numbers, where these workers of a cluster cannot have the devices that they shall have. */
  require(cluster: string, vnodes: readonly KeptVnode[]): Promise<void>;
  /** Tells its kubelet, where that does not know them yet or they have changed. */
  offer(cluster: string, vnode: KeptVnode): Promise<void>;
  /** Of other workers nothing is told any more. */
  retain(workers: readonly { readonly cluster: string; readonly vnode: string }[]): void;
}

export interface KubeRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly body?: unknown;
}

export interface KubeReply {
  readonly status: number;
  /** JSON, where the answer was. */
  readonly body: unknown;
}

/** The API of a cluster, spoken to as the platform. PATCH is a merge patch. */
export type ClusterApi = (
  cluster: KeptCluster,
  request: KubeRequest,
  signal: AbortSignal,
) => Promise<KubeReply>;
