// A fake Kubernetes API for tests: nodes of machines that have joined, pods with their budgets, and whatever objects
// are applied. It schedules nothing and runs nothing; a real API server takes its place behind the same `Send`.
import { AppError } from "@gpve/contracts/errors.ts";
import { fieldsOf } from "@gpve/contracts/json-object.ts";
import type { ConfigDocument } from "../config/document.ts";
import type { KubernetesReply, KubernetesRequest, Send } from "../kubernetes/kubernetes.ts";

export interface FakeKubelet {
  readonly hostname: string;
  readonly isOn: boolean;
  /** Without the "v". */
  readonly version: string;
  /** What Talos and the kubelet give the node, or try to. */
  readonly asks?: AskedMarks;
}

export interface AskedMarks {
  readonly isControlPlane: boolean;
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: Readonly<Record<string, string>>;
  readonly registerWithTaints: readonly Tree[];
}

interface FakeNode {
  labels?: Record<string, string>;
  taints?: readonly Tree[];
  isReady: boolean;
  isCordoned: boolean;
  annotations: Record<string, string>;
  version: string;
}

interface FakePod {
  readonly namespace: string;
  readonly name: string;
  node: string;
  /** A budget does not let it go. */
  isKept: boolean;
  readonly owner: "ReplicaSet" | "DaemonSet";
}

type Tree = Record<string, unknown>;

export class FakeKubernetes {
  readonly nodes = new Map<string, FakeNode>();
  readonly pods = new Map<string, FakePod>();
  readonly objects = new Map<string, Tree>();
  version = "1.36.3";
  /** What NodeRestriction has refused. */
  readonly refusals = new Set<string>();
  /** Add-ons whose workloads never become ready, by the object's name. */
  readonly broken = new Set<string>();
  /** So many of the next changes that are asked for get no answer. */
  drops = 0;
  /** So many of the next changes of a node find that somebody else has changed it. */
  conflicts = 0;
  readonly #kubelets: () => readonly FakeKubelet[];
  readonly #isUp: () => boolean;

  constructor(deps: { readonly kubelets: () => readonly FakeKubelet[]; readonly isUp: () => boolean }) {
    this.#kubelets = deps.kubelets;
    this.#isUp = deps.isUp;
  }

  readonly send: Send = async (request) => {
    const isDropped = request.method !== "GET" && this.drops > 0;
    if (isDropped) this.drops -= 1;
    if (isDropped || !this.#isUp())
      throw new AppError("node.unavailable", "Kubernetes does not answer: connection refused");
    this.#sync();
    return this.#answer(request);
  };

  addPod(node: string, name: string, more: Partial<FakePod> = {}): void {
    this.pods.set(name, { namespace: "default", name, node, isKept: false, owner: "ReplicaSet", ...more });
  }

  /** Kubelets register themselves and say that they are well. */
  #sync(): void {
    const kubelets = this.#kubelets();
    for (const { hostname, isOn, version, asks } of kubelets) {
      const known = this.nodes.get(hostname);
      if (known === undefined && !isOn) continue;
      const node = known ?? { isReady: false, isCordoned: false, annotations: {}, version };
      Object.assign(node, { isReady: isOn, version: isOn ? version : node.version });
      if (known === undefined && asks !== undefined) node.taints = asks.registerWithTaints;
      if (isOn && asks !== undefined) this.#mark(hostname, node, asks);
      this.nodes.set(hostname, node);
    }
    for (const [name, node] of this.nodes)
      if (!kubelets.some(({ hostname }) => hostname === name)) node.isReady = false;
  }

  /** All at once or not at all: as Talos does it, who is an administrator on control planes alone. */
  #mark(hostname: string, node: FakeNode, { isControlPlane, labels, taints }: AskedMarks): void {
    if (!isControlPlane) {
      const refused = [
        ...Object.keys(labels).filter((label) => label.startsWith("node-role.kubernetes.io/")),
        ...Object.keys(taints),
      ];
      for (const key of refused) this.refusals.add(`${hostname} may not give its node ${key}`);
      if (refused.length > 0) return;
    }
    node.labels = { ...node.labels, ...labels };
  }

  #answer({ method, path, body }: KubernetesRequest): KubernetesReply {
    const { pathname, searchParams } = new URL(path, "https://kubernetes");
    const [, node] = /^\/api\/v1\/nodes\/([^/]+)$/.exec(pathname) ?? [];
    const [, pod, eviction] =
      /^\/api\/v1\/namespaces\/[^/]+\/pods\/([^/]+)(\/eviction)?$/.exec(pathname) ?? [];
    if (method === "GET" && pathname === "/version") return ok({ gitVersion: `v${this.version}` });
    if (method === "GET" && pathname === "/api/v1/nodes")
      return ok({ items: [...this.nodes].map(nodeObject) });
    if (method === "GET" && pathname === "/api/v1/pods") {
      const wanted = searchParams.get("fieldSelector")?.replace("spec.nodeName=", "");
      return ok({ items: [...this.pods.values()].filter((each) => each.node === wanted).map(podObject) });
    }
    if (node !== undefined) return this.#node(method, node, body as Tree);
    if (pod !== undefined) return this.#pod(pod, eviction !== undefined);
    return this.#object(method, pathname, body as Tree);
  }

  #node(method: string, name: string, body: Tree): KubernetesReply {
    const node = this.nodes.get(name);
    if (node === undefined) return missing(`nodes "${name}" not found`);
    if (method === "DELETE") this.nodes.delete(name);
    if (method === "PATCH") {
      const { metadata, spec } = body as {
        metadata?: {
          annotations?: Record<string, string | null>;
          labels?: Record<string, string | null>;
          resourceVersion?: string;
        };
        spec?: { unschedulable?: boolean | null; taints?: readonly Tree[] };
      };
      const { resourceVersion } = metadata ?? {};
      if (resourceVersion !== undefined && this.conflicts > 0) {
        this.conflicts -= 1;
        return { status: 409, body: { message: "the object has been modified" } };
      }
      merge(node.annotations, metadata?.annotations);
      merge((node.labels ??= {}), metadata?.labels);
      if (spec?.unschedulable !== undefined) node.isCordoned = spec.unschedulable === true;
      if (spec?.taints !== undefined) node.taints = spec.taints;
    }
    return ok(nodeObject([name, node]));
  }

  /** One that may go comes up on another node. */
  #pod(name: string, isEviction: boolean): KubernetesReply {
    const pod = this.pods.get(name);
    if (pod === undefined) return missing(`pods "${name}" not found`);
    if (isEviction && pod.isKept) {
      return {
        status: 429,
        body: { message: "Cannot evict pod as it would violate the pod's disruption budget." },
      };
    }
    const free = [...this.nodes].findLast(([, { isReady, isCordoned }]) => isReady && !isCordoned);
    if (free === undefined) this.pods.delete(name);
    else pod.node = free[0];
    return ok({});
  }

  #object(method: string, path: string, body: Tree): KubernetesReply {
    const known = this.objects.get(path);
    if (method === "PATCH") {
      const metadata = { ...(body["metadata"] as Tree), generation: 1 };
      this.objects.set(path, { ...known, ...body, metadata, status: this.#status(body) });
      return ok(this.objects.get(path) ?? {});
    }
    if (known === undefined) return missing(`${path} not found`);
    if (method === "DELETE") this.objects.delete(path);
    return ok(known);
  }

  #status(body: Tree): Tree {
    const { name } = (body["metadata"] ?? {}) as { name?: string };
    const ready = this.broken.has(name ?? "") ? 0 : 1;
    const { replicas } = (body["spec"] ?? {}) as { replicas?: number };
    const isWell = ready === 1 ? "True" : "False";
    return {
      conditions: ["Established", "Available", "Complete"].map((type) => ({ type, status: isWell })),
      observedGeneration: 1,
      readyReplicas: ready * (replicas ?? 1),
      availableReplicas: ready * (replicas ?? 1),
      updatedReplicas: replicas ?? 1,
      desiredNumberScheduled: 1,
      updatedNumberScheduled: 1,
      numberAvailable: ready,
      numberReady: ready,
    };
  }
}

function merge(into: Record<string, string>, patch: Readonly<Record<string, string | null>> = {}): void {
  for (const [key, value] of Object.entries(patch))
    if (value === null) delete into[key];
    else into[key] = value;
}

function nodeObject([name, node]: [string, FakeNode]): Tree {
  const { isReady, isCordoned, annotations, version, labels = {}, taints = [] } = node;
  return {
    metadata: { name, annotations, labels, resourceVersion: "1" },
    spec: { unschedulable: isCordoned, taints },
    status: {
      conditions: [{ type: "Ready", status: isReady ? "True" : "False" }],
      nodeInfo: { kubeletVersion: `v${version}` },
    },
  };
}

function podObject({ namespace, name, node, owner }: FakePod): Tree {
  return {
    metadata: { namespace, name, ownerReferences: [{ kind: owner }] },
    spec: { nodeName: node },
    status: { phase: "Running" },
  };
}

const ok = (body: Tree): KubernetesReply => ({ status: 200, body });
const missing = (message: string): KubernetesReply => ({ status: 404, body: { message } });

/** As a machine has them in its configuration, whatever its contract. */
export function askedMarks(documents: readonly ConfigDocument[], isControlPlane: boolean): AskedMarks {
  const of = (kind: string): Tree => documents.find((each) => each["kind"] === kind) ?? {};
  const machine = fieldsOf(documents.find((each) => each["machine"] !== undefined)?.["machine"]);
  const own = of("KubeNodeConfig");
  const config = fieldsOf(fieldsOf(machine["kubelet"])["extraConfig"] ?? of("KubeletConfig")["config"]);
  return {
    isControlPlane,
    labels: fieldsOf(machine["nodeLabels"] ?? own["labels"]) as AskedMarks["labels"],
    taints: fieldsOf(machine["nodeTaints"] ?? own["taints"]) as AskedMarks["taints"],
    registerWithTaints: (config["registerWithTaints"] ?? []) as readonly Tree[],
  };
}
