// A host of workers in memory, and the API of the clusters that they are of. What is to go wrong is put into `broken`.
import { AppError } from "@gpve/contracts/errors.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type {
  ClusterApi,
  KubeReply,
  KubeRequest,
  VnodeHost,
  VnodePod,
  VnodeUsage,
} from "@gpve/domain/vcluster/vnode/ports.ts";
import { guardKind } from "@gpve/domain/vcluster/vnode/guard.ts";
import type { KeptVnode, VnodePart } from "@gpve/domain/vcluster/vnode/vnode.ts";

export class FakeVnodeHost implements VnodeHost {
  readonly kept = new Map<string, KeptVnode>();
  readonly running = new Set<string>();
  readonly restarted: string[] = [];
  readonly broken = new Set<"start" | "stop" | "repair" | "remove">();
  readonly podsOf = new Map<string, readonly VnodePod[]>();
  readonly folders = new Set<string>();
  readonly asked = new Map<string, number>();
  routed = 0;
  #ended: (cluster: string, vnode: string, part: VnodePart, why: string) => void = () => undefined;

  list(cluster: string): readonly KeptVnode[] {
    return [...this.kept.entries()]
      .filter(([id]) => id.startsWith(`${cluster}/`))
      .map(([, vnode]) => vnode)
      .toSorted((a, b) => a.slot - b.slot);
  }

  save(cluster: string, vnode: KeptVnode): void {
    this.kept.set(`${cluster}/${vnode.name}`, vnode);
  }

  async start({ name }: KeptCluster, vnode: KeptVnode): Promise<void> {
    if (this.broken.has("start")) throw new AppError("internal.error", "start is broken");
    this.running.add(`${name}/${vnode.name}`);
  }

  async repair({ name }: KeptCluster, vnode: KeptVnode): Promise<void> {
    if (this.broken.has("repair")) throw new AppError("internal.error", "repair is broken");
    this.running.add(`${name}/${vnode.name}`);
  }

  async restartPart({ name }: KeptCluster, vnode: KeptVnode, part: VnodePart): Promise<void> {
    this.restarted.push(`${name}/${vnode.name}/${part}`);
  }

  async exchange(cluster: KeptCluster, vnode: KeptVnode): Promise<void> {
    for (const part of ["kubelet", "kube-proxy"] as const) await this.restartPart(cluster, vnode, part);
  }

  async stop({ name }: KeptCluster, vnode: KeptVnode): Promise<void> {
    if (this.broken.has("stop")) throw new AppError("internal.error", "stop is broken");
    this.running.delete(`${name}/${vnode.name}`);
  }

  async remove({ name }: KeptCluster, vnode: KeptVnode): Promise<void> {
    if (this.broken.has("remove")) throw new AppError("internal.error", "remove is broken");
    this.kept.delete(`${name}/${vnode.name}`);
  }

  async route(): Promise<void> {
    this.routed++;
  }

  isUp({ name }: KeptCluster, vnode: KeptVnode): boolean {
    return this.running.has(`${name}/${vnode.name}`);
  }

  pods({ name }: KeptCluster, vnode: KeptVnode): readonly VnodePod[] {
    return this.podsOf.get(`${name}/${vnode.name}`) ?? [];
  }

  usage(): VnodeUsage {
    return { memoryBytes: 3, cpuSeconds: 4 };
  }

  accelerator(): undefined {
    return undefined;
  }

  async makeVolume({ name }: KeptCluster, vnode: KeptVnode, volume: string, bytes: number): Promise<void> {
    this.folders.add(`${name}/${vnode.name}/${volume}`);
    this.asked.set(volume, bytes);
  }

  async removeVolume({ name }: KeptCluster, vnode: KeptVnode, volume: string): Promise<void> {
    this.folders.delete(`${name}/${vnode.name}/${volume}`);
    this.asked.delete(volume);
  }

  putVolumesAside(cluster: string, vnode: KeptVnode): string | undefined {
    const all = this.volumes(cluster, vnode);
    for (const volume of all) this.folders.delete(`${cluster}/${vnode.name}/${volume}`);
    return all.length === 0 ? undefined : `/left/${cluster}/${vnode.name}`;
  }

  volumeBytes(): number {
    return [...this.asked.values()].reduce((sum, bytes) => sum + bytes, 0);
  }

  volumes(cluster: string, vnode: KeptVnode): readonly string[] {
    const above = `${cluster}/${vnode.name}/`;
    return [...this.folders].filter((path) => path.startsWith(above)).map((path) => path.slice(above.length));
  }

  lastWords(): readonly string[] {
    return ["worker-1 kubelet: hello"];
  }

  onEnd(listener: (cluster: string, vnode: string, part: VnodePart, why: string) => void): void {
    this.#ended = listener;
  }

  /** A part ends that nobody told to. */
  end(cluster: string, vnode: string, part: VnodePart): void {
    this.running.delete(`${cluster}/${vnode}`);
    this.#ended(cluster, vnode, part, "crashed: boom");
  }
}

/** What a cluster whose guard stands answers to those who make sure of it. */
export function guardAnswer({ method, path }: KubeRequest, version = "1.36.4"): KubeReply | undefined {
  if (method !== "POST") return undefined;
  const name = `gpve-l1-pods${guardKind(version) === "files" ? ".static.k8s.io" : ".gpve.io"}`;
  if (path === "/api/v1/namespaces/default/pods?dryRun=All")
    return {
      status: 422,
      body: {
        message: `pods "gpve-guard-" is forbidden: ValidatingAdmissionPolicy '${name}' with binding '${name}' denied request: level L1: no`,
      },
    };
  if (path.endsWith("/subjectaccessreviews")) return { status: 201, body: { status: { denied: true } } };
  return undefined;
}

interface FakePod {
  readonly namespace: string;
  readonly name: string;
  readonly node: string;
  readonly owner?: string;
}

/** Nodes are Ready as soon as they are there, unless `neverReady`; a pod that is evicted is gone, unless its budget says no. */
export class FakeClusterApi {
  readonly nodes = new Map<string, { podCIDR?: string; unschedulable?: boolean }>();
  readonly made: string[] = [];
  readonly log: string[] = [];
  readonly pods: FakePod[] = [];
  budgetRefusals = 0;
  neverReady = false;

  readonly call: ClusterApi = async (cluster, request) => {
    const { method, path, body } = request;
    this.log.push(`${method} ${path}`);
    const guarded = guardAnswer(request, cluster.version);
    if (guarded !== undefined) return guarded;
    const node = /^\/api\/v1\/nodes\/([^/]+)$/.exec(path)?.[1];
    if (method === "POST" && path === "/api/v1/nodes") {
      const { metadata, spec } = body as { metadata: { name: string }; spec: { podCIDR?: string } };
      if (this.nodes.has(metadata.name)) return { status: 409, body: {} };
      this.nodes.set(metadata.name, spec);
      return { status: 201, body: {} };
    }
    if (node !== undefined) return this.#node(method, node, body);
    if (path.endsWith("/eviction")) return this.#evict(path);
    if (method === "GET" && path.startsWith("/api/v1/pods"))
      return { status: 200, body: { items: this.#podsOn(path) } };
    if (method === "GET" && path === "/api/v1/persistentvolumes") return { status: 200, body: { items: [] } };
    if (method === "DELETE" || method === "GET") return { status: 404, body: {} };
    this.made.push(path);
    return { status: 201, body: {} };
  };

  #node(method: string, name: string, body: unknown): { status: number; body: unknown } {
    const found = this.nodes.get(name);
    if (found === undefined) return { status: 404, body: {} };
    if (method === "DELETE") this.nodes.delete(name);
    if (method === "PATCH") {
      const { unschedulable } = (body as { spec: { unschedulable: boolean | null } }).spec;
      this.nodes.set(name, { ...found, unschedulable: unschedulable === true });
    }
    const status = this.neverReady ? "False" : "True";
    return {
      status: 200,
      body: { status: { conditions: [{ type: "Ready", status, message: "no network" }] } },
    };
  }

  #evict(path: string): { status: number; body: unknown } {
    if (this.budgetRefusals > 0) {
      this.budgetRefusals--;
      return { status: 429, body: {} };
    }
    const [, namespace, name] = /namespaces\/([^/]+)\/pods\/([^/]+)\/eviction$/.exec(path) ?? [];
    const at = this.pods.findIndex((pod) => pod.namespace === namespace && pod.name === name);
    if (at >= 0) this.pods.splice(at, 1);
    return { status: 201, body: {} };
  }

  #podsOn(path: string): readonly unknown[] {
    const node = decodeURIComponent(path).split("spec.nodeName=")[1];
    return this.pods
      .filter((pod) => pod.node === node)
      .map(({ namespace, name, owner = "ReplicaSet" }) => ({
        metadata: { namespace, name, ownerReferences: [{ kind: owner }] },
      }));
  }
}
