// Empties a node of a cluster as `kubectl drain` does: nobody new comes, and whoever is there is asked to leave, as budgets
// for disruption allow.
import { AppError } from "@gpve/contracts/errors.ts";
import type { KubeReply, KubeRequest } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { Clock } from "@gpve/kit/clock.ts";

export interface DrainCtx {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
  readonly warn: (line: string) => void;
}

interface Pod {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly ownerReferences?: readonly { readonly kind: string }[];
  };
}

/** Who is still there then goes with the node. */
const DRAIN_MS = 120_000;
const LOOK_MS = 500;
const TOO_MANY = 429;

export async function drainNode(
  call: (request: KubeRequest) => Promise<KubeReply>,
  node: string,
  { clock, signal, log, warn }: DrainCtx,
): Promise<void> {
  const cordoned = await call({
    method: "PATCH",
    path: `/api/v1/nodes/${node}`,
    body: { spec: { unschedulable: true } },
  });
  if (cordoned.status === 404) return;
  const until = clock.monotonic() + DRAIN_MS;
  const refused = new Set<string>();
  for (;;) {
    const left = await podsOn(call, node);
    if (left.length === 0) break;
    if (clock.monotonic() > until) {
      for (const pod of left)
        warn(`${idOf(pod)} did not leave ${node} in ${DRAIN_MS / 1000} s and ends with it`);
      break;
    }
    for (const pod of left) {
      const { name, namespace } = pod.metadata;
      const { status } = await call({
        method: "POST",
        path: `/api/v1/namespaces/${namespace}/pods/${name}/eviction`,
        body: { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace } },
      });
      if (status === TOO_MANY && !refused.has(idOf(pod))) {
        refused.add(idOf(pod));
        log(`${idOf(pod)} may not leave yet: its disruption budget says so`);
      }
    }
    await clock.sleep(LOOK_MS, signal);
  }
  log(`${node} is drained`);
}

/** Without those that belong to the node itself. */
async function podsOn(
  call: (request: KubeRequest) => Promise<KubeReply>,
  node: string,
): Promise<readonly Pod[]> {
  const path = `/api/v1/pods?fieldSelector=spec.nodeName%3D${node}`;
  const { status, body } = await call({ method: "GET", path });
  const { items = [], message = "" } = (body ?? {}) as { items?: readonly Pod[]; message?: string };
  // Whoever cannot say who is there has not said that nobody is.
  if (status !== 200)
    throw new AppError("internal.error", `cannot see who is on ${node}: ${status} ${message}`);
  return items.filter(
    ({ metadata: { annotations = {}, ownerReferences = [] } }) =>
      annotations["kubernetes.io/config.mirror"] === undefined &&
      ownerReferences.every(({ kind }) => kind !== "DaemonSet"),
  );
}

function idOf({ metadata: { namespace, name } }: Pod): string {
  return `pod ${namespace}/${name}`;
}
