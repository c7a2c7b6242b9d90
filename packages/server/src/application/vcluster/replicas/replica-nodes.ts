// A control plane of several replicas, to the servers: whom to ask, and what is not done for several.
import { AppError } from "@gpve/contracts/errors.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { serverName } from "@gpve/domain/vcluster/cluster-front.ts";
import { hasReplicas } from "@gpve/domain/vcluster/replicas/replica-places.ts";
import { standbyRefusal } from "@gpve/domain/vcluster/standby/standby.ts";
import { keyOf, nodesOf, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { runtimeIn, type VirtualClusterRuntime } from "@gpve/domain/vcluster/vcluster-runtime.ts";

type Placed = Pick<VirtualClusterRecord, "name" | "key" | "node" | "spread">;

/** What that node tells of the cluster with that key. */
export function runtimeOn(board: NodeBoard, node: string, key: string): VirtualClusterRuntime | undefined {
  return runtimeIn(board.get(node)?.report?.vclusters, key);
}

/** Its replica there serves, as far as that node has told. */
export function isServing(board: NodeBoard, node: string, key: string): boolean {
  if (board.get(node)?.health !== "online") return false;
  const runtime = runtimeOn(board, node, key);
  return runtime?.phase === "Running" && runtime.power === "hot";
}

/** Its node; of several, one that serves, else one that is there. */
export function answeringNode(board: NodeBoard, record: Placed): string {
  if (!hasReplicas(record.spread)) return record.node;
  const nodes = nodesOf(record);
  return (
    nodes.find((node) => isServing(board, node, keyOf(record))) ??
    nodes.find((node) => board.get(node)?.health === "online") ??
    record.node
  );
}

/** Who is told of work on it, first the one whose answer counts. A start or a second try is for those that are there. */
export function workingNodes(
  board: NodeBoard,
  record: Placed,
  verb: "start" | "stop" | "retry" | "wake",
): readonly string[] {
  const nodes = nodesOf(record);
  // What sleeps and wakes is its control plane alone.
  if (verb === "wake") return [answeringNode(board, record)];
  if (!hasReplicas(record.spread) || verb === "stop") return nodes;
  const there = nodes.filter((node) => board.get(node)?.health === "online");
  const failed = there.filter((node) => runtimeOn(board, node, keyOf(record))?.phase === "Failed");
  return verb === "retry" && failed.length > 0 ? failed : there;
}

/** Where a kubeconfig of it leads: to the servers, as the client knows them, which pass it on to where the cluster is then;
 * undefined = to its node. Where there is one node, the cluster is nowhere else; and by a name that means another machine to
 * every client, only one is known that another node can go on with. */
export function passingServer(
  board: Pick<NodeBoard, "list">,
  { spread, spec }: Pick<VirtualClusterRecord, "spread" | "spec">,
  host: string | undefined,
): string | undefined {
  const { exposure } = spec;
  if (exposure === "node" || host === undefined || !/^[A-Za-z0-9.:[\]-]+$/.test(host)) return undefined;
  const areSeveral = board.list().length > 1;
  const outlivesNode = hasReplicas(spread) || (areSeveral && standbyRefusal(spec) === undefined);
  const isShared = areSeveral && !/^(?:localhost|127\.[\d.]+|\[::1\])(?::\d+)?$/i.test(host);
  return exposure === "server" || outlivesNode || isShared ? `https://${host}` : undefined;
}

export interface ReplicaTarget {
  readonly host: string;
  readonly port: number;
  /** Of one without replicas: whether its node is there. */
  readonly isThere?: () => boolean;
}

/** Where the cluster is that is asked for by that name, those that serve first; undefined = there is none. */
export function replicaTargets(
  board: NodeBoard,
  all: readonly VirtualClusterRecord[],
  asked: string,
): readonly ReplicaTarget[] | undefined {
  const record = all.find(({ name, tenant }) => serverName(name, tenant) === asked);
  if (record === undefined) return undefined;
  const nodes = hasReplicas(record.spread) ? nodesOf(record) : [record.node];
  const serving = nodes.filter((node) => isServing(board, node, keyOf(record)));
  return [...serving, ...nodes.filter((node) => !serving.includes(node))].flatMap((node) => {
    // A node tells at which port; where it is, the cluster knows: nobody is led elsewhere by what a node says.
    const port = portOf(runtimeOn(board, node, keyOf(record))?.endpoint ?? "");
    const host = board.get(node)?.address ?? "";
    if (port === 0 || host === "") return [];
    const isThere = (): boolean => board.get(node)?.health === "online";
    return hasReplicas(record.spread) ? [{ host, port }] : [{ host, port, isThere }];
  });
}

function portOf(endpoint: string): number {
  return URL.canParse(endpoint) ? Number(new URL(endpoint).port) : 0;
}

/** Throws unless all of its replicas serve: each of them is told of what changes for all, now or never. */
export function requireWhole(
  board: NodeBoard,
  record: Placed,
  wanted: "scale" | "upgrade" | "migrate" | "rotate-ca",
): void {
  const { name, spread } = record;
  const key = keyOf(record);
  if (!hasReplicas(spread)) return;
  const missing = spread?.nodes.filter(({ node }) => !isServing(board, node, key)) ?? [];
  if (missing.length === 0) return;
  const why = missing.map(({ node }) => {
    const isOnline = board.get(node)?.health === "online";
    return `${node} is ${isOnline ? (runtimeOn(board, node, key)?.phase ?? "Pending") : "offline"}`;
  });
  throw new AppError(
    "object.conflict",
    `virtual cluster '${name}' stays as it is (${wanted}) while not all of its replicas serve: ${why.join("; ")}. Try again when they do (gpvectl get vc ${name}); one whose node stays away is replaced after a minute, where another node is free`,
  );
}

/** Throws where it has replicas, with what is so instead. */
export function requireAlone(
  name: string,
  spread: VirtualClusterRecord["spread"],
  wanted: "sleep" | "move",
): void {
  if (!hasReplicas(spread)) return;
  const why =
    wanted === "sleep"
      ? "does not sleep: its replicas would hold no votes; stop it instead"
      : "has its replicas on nodes of their own already: one goes to another node when its own is lost";
  throw new AppError("feature.unsupported", `virtual cluster '${name}' of several replicas ${why}`);
}
