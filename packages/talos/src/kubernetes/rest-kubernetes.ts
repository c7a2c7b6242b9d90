// Kubernetes by its REST API.
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { type Fields, fieldsOf } from "@gpve/contracts/json-object.ts";
import type {
  Kubernetes,
  KubernetesNode,
  KubernetesObject,
  KubernetesReply,
  KubernetesRequest,
  Pod,
  Send,
} from "./kubernetes.ts";
import { marksPatch, type NodeMarks, seenMarks } from "./node-marks.ts";
import { type ApiResource, groupPath, isKnownKind, objectPath } from "./object-path.ts";

/** On nodes that we cordoned ourselves. */
export const CORDON_NOTE = "gpve.io/cordoned";
const FIELD_MANAGER = "gpve-talos";
/** Kubelets and controllers write to their nodes every few seconds. */
const MOST_TRIES = 5;

export class RestKubernetes implements Kubernetes {
  readonly #send: Send;
  readonly #close: () => void;
  readonly #resources = new Map<string, ReadonlyMap<string, ApiResource>>();

  constructor(send: Send, close: () => void = () => undefined) {
    this.#send = send;
    this.#close = close;
  }

  close(): void {
    this.#close();
  }

  async version(): Promise<string> {
    const body = await this.#call("read the version", { method: "GET", path: "/version" });
    return text(body["gitVersion"]).replace(/^v/, "");
  }

  async nodes(): Promise<readonly KubernetesNode[]> {
    const body = await this.#call("list nodes", { method: "GET", path: "/api/v1/nodes" });
    return items(body).map(nodeOf);
  }

  async evictablePods(node: string): Promise<readonly Pod[]> {
    const selector = encodeURIComponent(`spec.nodeName=${node}`);
    const path = `/api/v1/pods?fieldSelector=${selector}`;
    const body = await this.#call(`list pods of ${node}`, { method: "GET", path });
    return items(body)
      .filter(isEvictable)
      .map((pod) => ({ namespace: text(meta(pod)["namespace"]), name: text(meta(pod)["name"]) }));
  }

  async setCordon(node: string, isCordoned: boolean): Promise<void> {
    const body = {
      metadata: { annotations: { [CORDON_NOTE]: isCordoned ? "true" : null } },
      spec: { unschedulable: isCordoned ? true : null },
    };
    await this.#call(`${isCordoned ? "cordon" : "uncordon"} ${node}`, {
      method: "PATCH",
      path: `/api/v1/nodes/${encodeURIComponent(node)}`,
      contentType: "application/merge-patch+json",
      body,
    });
  }

  async markNode(node: string, marks: NodeMarks): Promise<void> {
    const path = `/api/v1/nodes/${encodeURIComponent(node)}`;
    for (let tries = 1; ; tries += 1) {
      const found = await this.#call(`read the node ${node}`, { method: "GET", path });
      try {
        await this.#call(`label and taint ${node}`, {
          method: "PATCH",
          path,
          contentType: "application/merge-patch+json",
          body: marksPatch(found, marks),
        });
        return;
      } catch (err) {
        if (!isAppError(err, "object.conflict") || tries >= MOST_TRIES) throw err;
      }
    }
  }

  async evict({ namespace, name }: Pod): Promise<boolean> {
    const reply = await this.#send({
      method: "POST",
      path: `/api/v1/namespaces/${namespace}/pods/${name}/eviction`,
      body: { apiVersion: "policy/v1", kind: "Eviction", metadata: { namespace, name } },
    });
    // 429: a budget; 404: it is gone already.
    if (reply.status === 429) return false;
    if (reply.status !== 404) okay(reply, `evict ${namespace}/${name}`);
    return true;
  }

  deletePod({ namespace, name }: Pod): Promise<void> {
    return this.#remove(
      `/api/v1/namespaces/${namespace}/pods/${name}`,
      `delete the pod ${namespace}/${name}`,
    );
  }

  deleteNode(node: string): Promise<void> {
    return this.#remove(`/api/v1/nodes/${encodeURIComponent(node)}`, `delete the node ${node}`);
  }

  async apply(object: KubernetesObject): Promise<void> {
    await this.#call(`apply ${named(object)}`, {
      method: "PATCH",
      path: `${await this.#pathOf(object)}?fieldManager=${FIELD_MANAGER}&force=true`,
      contentType: "application/apply-patch+yaml",
      body: object,
    });
  }

  async read(object: KubernetesObject): Promise<Fields | undefined> {
    const reply = await this.#send({ method: "GET", path: await this.#pathOf(object) });
    return reply.status === 404 ? undefined : okay(reply, `read ${named(object)}`);
  }

  async delete(object: KubernetesObject): Promise<void> {
    return this.#remove(await this.#pathOf(object), `delete ${named(object)}`);
  }

  async list(kind: KubernetesObject, labelSelector = ""): Promise<readonly Fields[]> {
    const one = await this.#pathOf({ ...kind, metadata: { ...kind.metadata, name: "x" } });
    const query = labelSelector === "" ? "" : `?labelSelector=${encodeURIComponent(labelSelector)}`;
    const path = `${one.slice(0, -"/x".length)}${query}`;
    return items(await this.#call(`list ${kind.kind}`, { method: "GET", path }));
  }

  /** Kinds that others define are asked for: how they are spelled, and whether they belong to a namespace. */
  async #pathOf(object: KubernetesObject): Promise<string> {
    if (isKnownKind(object)) return objectPath(object);
    const { apiVersion, kind } = object;
    const known = this.#resources.get(apiVersion)?.get(kind);
    if (known !== undefined) return objectPath(object, known);
    const reply = await this.#send({ method: "GET", path: groupPath(apiVersion) });
    if (reply.status === 404) return objectPath(object);
    const rows = okay(reply, `read the kinds of ${apiVersion}`)["resources"];
    const resources = (Array.isArray(rows) ? (rows as unknown[]) : []).filter(isObject).flatMap((row) => {
      const name = text(row["name"]);
      const resource = { name, isNamespaced: row["namespaced"] === true };
      return name.includes("/") ? [] : [[text(row["kind"]), resource] as const];
    });
    this.#resources.set(apiVersion, new Map(resources));
    return objectPath(object, this.#resources.get(apiVersion)?.get(kind));
  }

  async #remove(path: string, doing: string): Promise<void> {
    const reply = await this.#send({ method: "DELETE", path });
    if (reply.status !== 404) okay(reply, doing);
  }

  async #call(doing: string, request: KubernetesRequest): Promise<Fields> {
    return okay(await this.#send(request), doing);
  }
}

const named = ({ kind, metadata }: KubernetesObject): string => `${kind} ${metadata.name}`;

function okay({ status, body }: KubernetesReply, doing: string): Fields {
  const tree = isObject(body) ? body : {};
  if (status >= 200 && status < 300) return tree;
  const message = text(tree["message"]) || `status ${status}`;
  const codes = {
    401: "auth.failed",
    403: "access.denied",
    404: "object.not_found",
    409: "object.conflict",
  } as const;
  const known = codes[status as keyof typeof codes];
  const fallback = status >= 500 ? "node.unavailable" : "request.invalid";
  throw new AppError(known ?? fallback, `Kubernetes: ${doing}: ${message}`, { data: { status } });
}

function nodeOf(node: Fields): KubernetesNode {
  const status = fieldsOf(node["status"]);
  const conditions = Array.isArray(status["conditions"]) ? (status["conditions"] as unknown[]) : [];
  const ready = conditions.filter(isObject).find((condition) => condition["type"] === "Ready");
  return {
    name: text(meta(node)["name"]),
    isReady: ready?.["status"] === "True",
    isCordoned: fieldsOf(node["spec"])["unschedulable"] === true,
    isOurCordon: fieldsOf(meta(node)["annotations"])[CORDON_NOTE] === "true",
    kubelet: text(fieldsOf(status["nodeInfo"])["kubeletVersion"]).replace(/^v/, ""),
    marks: seenMarks(node),
  };
}

function isEvictable(pod: Fields): boolean {
  const owners = meta(pod)["ownerReferences"];
  const isDaemon =
    Array.isArray(owners) && owners.some((owner) => isObject(owner) && owner["kind"] === "DaemonSet");
  const isStatic = fieldsOf(meta(pod)["annotations"])["kubernetes.io/config.mirror"] !== undefined;
  const phase = fieldsOf(pod["status"])["phase"];
  return !isDaemon && !isStatic && phase !== "Succeeded" && phase !== "Failed";
}

const items = (body: Fields): readonly Fields[] =>
  Array.isArray(body["items"]) ? (body["items"] as unknown[]).filter(isObject) : [];
const meta = (object: Fields): Fields => fieldsOf(object["metadata"]);
const text = (value: unknown): string => (typeof value === "string" ? value : "");
