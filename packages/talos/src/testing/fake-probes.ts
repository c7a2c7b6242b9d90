// Pods of the looking into a cluster, on a fake API: servers run at once, and probes end with what a test lets them say.
import type { KubernetesReply, KubernetesRequest, Send } from "../kubernetes/kubernetes.ts";
import type { FakeKubernetes } from "./fake-kubernetes.ts";

type Tree = Record<string, unknown>;
const PODS = "/api/v1/namespaces/gpve-verify/pods";
const EVENTS = "/api/v1/namespaces/gpve-verify/events";
const CLASSES = "/apis/storage.k8s.io/v1/storageclasses";

export class FakeProbes {
  /** Nodes whose pods never run. */
  readonly stuck = new Set<string>();
  /** Probes that never end. */
  readonly endless = new Set<string>();
  /** Servers whose pods the cluster's rules forbid, by their name. */
  readonly forbidden = new Set<string>();
  fails = false;
  readonly #api: FakeKubernetes;
  readonly #nodes: readonly string[];
  readonly #words = new Map<string, string>();
  readonly #classes: Tree[] = [];
  readonly #pods = new Map<string, Tree>();
  readonly #objects = new Set<string>();

  constructor(api: FakeKubernetes, nodes: readonly string[]) {
    this.#api = api;
    this.#nodes = nodes;
  }

  says(probe: string, words: string): void {
    this.#words.set(probe, words);
  }

  addClass(name: string, provisioner: string, isDefault: boolean): void {
    const annotations = { "storageclass.kubernetes.io/is-default-class": String(isDefault) };
    this.#classes.push({ metadata: { name, annotations }, provisioner });
  }

  left(): readonly string[] {
    return [...this.#objects, ...this.#pods.keys()];
  }

  readonly send: Send = async (request) => {
    const { method, path, body } = request;
    if (this.fails) return { status: 403, body: { message: "forbidden" } };
    if (method === "GET" && path === CLASSES) return ok({ items: this.#classes });
    if (method === "GET" && path === EVENTS) return ok({ items: [...this.forbidden].map(refused) });
    if (method === "GET" && path.startsWith(`${PODS}?`)) return ok({ items: this.#listed(path) });
    if (method === "PATCH" && path.startsWith(`${PODS}/`)) return this.#probe(body as Tree);
    if (!path.includes("gpve-verify")) return this.#api.send(request);
    return this.#others(request);
  };

  #others({ method, path, body }: KubernetesRequest): KubernetesReply {
    const object = path.split("?")[0] ?? "";
    if (method === "DELETE") {
      this.#objects.clear();
      this.#pods.clear();
      return ok({});
    }
    if (method === "GET")
      return this.#objects.has(object) ? ok({}) : { status: 404, body: { message: "no" } };
    this.#objects.add(object);
    const { kind, metadata } = body as { kind: string; metadata: { name: string } };
    if (kind === "DaemonSet" && !this.forbidden.has(metadata.name))
      for (const node of this.#nodes) this.#serve(metadata.name, node);
    return ok({});
  }

  #serve(name: string, node: string): void {
    const isStuck = this.stuck.has(node);
    const state = isStuck ? { waiting: { reason: "ImagePullBackOff" } } : { running: {} };
    this.#pods.set(`${name}-${node}`, {
      metadata: { name: `${name}-${node}`, labels: { "gpve.io/verify": name } },
      spec: { nodeName: node },
      status: {
        phase: isStuck ? "Pending" : "Running",
        podIP: `10.244.${this.#nodes.indexOf(node)}.9`,
        conditions: [{ type: "Ready", status: isStuck ? "False" : "True" }],
        containerStatuses: [{ state }],
      },
    });
  }

  #probe(body: Tree): KubernetesReply {
    const { name } = body["metadata"] as { name: string };
    const terminated = { message: this.#words.get(name) ?? "" };
    const status = this.endless.has(name)
      ? { phase: "Running" }
      : { phase: "Succeeded", containerStatuses: [{ state: { terminated } }] };
    this.#pods.set(name, { ...body, status });
    return ok({});
  }

  #listed(path: string): readonly Tree[] {
    const selector = new URL(path, "https://kubernetes").searchParams.get("labelSelector") ?? "";
    const wanted = selector.split("=")[1];
    return [...this.#pods.values()].filter(
      ({ metadata }) => (metadata as { labels: Record<string, string> }).labels["gpve.io/verify"] === wanted,
    );
  }
}

const refused = (name: string): Tree => ({
  reason: "FailedCreate",
  involvedObject: { kind: "DaemonSet", name },
  message: `Error creating: pods "${name}-" is forbidden: hostNetwork`,
});
const ok = (body: Tree): KubernetesReply => ({ status: 200, body });
