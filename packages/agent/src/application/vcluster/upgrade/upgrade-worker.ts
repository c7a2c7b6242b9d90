// One worker to the version of its cluster: its kubelet and its kube-proxy are exchanged, its pods run on. Where it is a
// machine, that is exchanged.
import { AppError } from "@gpve/contracts/errors.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { ClusterApi, VnodeHost } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { KeptVnode } from "@gpve/domain/vcluster/vnode/vnode.ts";
import type { StepContext } from "@gpve/kit/operation/definition.ts";
import { drainNode } from "../../vnode/drain-node.ts";
import { expectStatus } from "../../vnode/register-node.ts";

const LOOK_MS = 100;

interface WorkerDeps {
  readonly vnodes: Pick<VnodeHost, "exchange" | "lastWords">;
  readonly api: ClusterApi;
}

export async function upgradeWorker(
  { vnodes, api }: WorkerDeps,
  cluster: KeptCluster,
  vnode: KeptVnode,
  {
    ctx,
    drain,
    readyMs,
  }: {
    readonly ctx: Pick<StepContext, "clock" | "signal" | "log" | "warn">;
    readonly drain: boolean;
    readonly readyMs: number;
  },
): Promise<void> {
  const path = `/api/v1/nodes/${vnode.name}`;
  const cordon = (on: true | null) =>
    expectStatus(
      api,
      cluster,
      { method: "PATCH", path, body: { spec: { unschedulable: on } } },
      [200],
      ctx.signal,
    );
  // Nobody new comes while it does not answer.
  await cordon(true);
  if (drain)
    await drainNode((request) => api(cluster, request, ctx.signal), vnode.name, {
      clock: ctx.clock,
      signal: ctx.signal,
      log: ctx.log,
      warn: ctx.warn,
    });
  await vnodes.exchange(cluster, vnode, ctx.signal);
  await ready({ vnodes, api }, cluster, vnode, { ...ctx, readyMs });
  await cordon(null);
  ctx.log(`${vnode.name} runs ${cluster.version}`);
}

interface NodeBody {
  readonly status?: {
    readonly nodeInfo?: { readonly kubeletVersion?: string };
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

/** Ready, and told so by the kubelet that it shall have. */
async function ready(
  { vnodes, api }: WorkerDeps,
  cluster: KeptCluster,
  vnode: KeptVnode,
  { clock, signal, readyMs }: Pick<StepContext, "clock" | "signal"> & { readonly readyMs: number },
): Promise<void> {
  const until = clock.monotonic() + readyMs;
  for (;;) {
    const { body } = await api(cluster, { method: "GET", path: `/api/v1/nodes/${vnode.name}` }, signal);
    const { nodeInfo, conditions = [] } = ((body ?? {}) as NodeBody).status ?? {};
    const isReady = conditions.some(({ type, status }) => type === "Ready" && status === "True");
    if (isReady && nodeInfo?.kubeletVersion === `v${cluster.version}`) return;
    if (clock.monotonic() > until)
      throw new AppError(
        "request.timeout",
        `${vnode.name} of ${cluster.name} is not Ready with kubelet ${cluster.version} after ${readyMs / 1000} s (its kubelet is ${nodeInfo?.kubeletVersion ?? "unknown"}): ${vnodes.lastWords(cluster.name, vnode).slice(-3).join(" | ").slice(-600)}`,
      );
    await clock.sleep(LOOK_MS, signal);
  }
}
