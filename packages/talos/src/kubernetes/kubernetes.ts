// What the deployer asks of a cluster's Kubernetes. Whoever answers, a real API server or a test's, is behind `Send`.
import type { NodeMarks, SeenMarks } from "./node-marks.ts";

export interface KubernetesNode {
  readonly name: string;
  readonly isReady: boolean;
  readonly isCordoned: boolean;
  readonly isOurCordon: boolean;
  /** Without the "v". */
  readonly kubelet: string;
  readonly marks: SeenMarks;
}

export interface Pod {
  readonly namespace: string;
  readonly name: string;
}

/** An object as it is written into a manifest. */
export type KubernetesObject = Readonly<Record<string, unknown>> & {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: Readonly<Record<string, unknown>> & {
    readonly name: string;
    readonly namespace?: string;
  };
};

export interface Kubernetes {
  /** Without the "v". */
  version(): Promise<string>;
  nodes(): Promise<readonly KubernetesNode[]>;
  /** Those a drain has to move: neither a DaemonSet's nor a static pod, nor one that has ended. */
  evictablePods(node: string): Promise<readonly Pod[]>;
  setCordon(node: string, isCordoned: boolean): Promise<void>;
  /** Gives it these labels and taints, and takes away what we gave it before. */
  markNode(node: string, marks: NodeMarks): Promise<void>;
  /** false: a disruption budget does not allow it now. */
  evict(pod: Pod): Promise<boolean>;
  deletePod(pod: Pod): Promise<void>;
  deleteNode(node: string): Promise<void>;
  /** Server-side, as the deployer's own fields. */
  apply(object: KubernetesObject): Promise<void>;
  /** undefined: there is none. */
  read(object: KubernetesObject): Promise<Readonly<Record<string, unknown>> | undefined>;
  delete(object: KubernetesObject): Promise<void>;
  /** All of its kind, in its namespace where it has one; its name does not matter. */
  list(kind: KubernetesObject, labelSelector?: string): Promise<readonly Readonly<Record<string, unknown>>[]>;
  close(): void;
}

export interface KubernetesReply {
  readonly status: number;
  readonly body: unknown;
}

export interface KubernetesRequest {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** With its query. */
  readonly path: string;
  readonly body?: unknown;
  readonly contentType?: string;
}

/** Fails (node.unavailable) when nobody answers. */
export type Send = (request: KubernetesRequest) => Promise<KubernetesReply>;
