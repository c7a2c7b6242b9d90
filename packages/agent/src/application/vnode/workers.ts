// The workers of a virtual cluster: as many as it shall have, ready; drained before they go.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { isBranch, isOwnSlot, replicaSlot } from "@gpve/domain/vcluster/overlay.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { clusterDns } from "@gpve/domain/vcluster/vnode/cluster-dns.ts";
import type { NodeNameServers } from "@gpve/domain/vcluster/vnode/name-servers.ts";
import { clusterIngress } from "@gpve/domain/vcluster/vnode/cluster-ingress.ts";
import { IMAGES, INGRESS_COMPONENT, WORKER_COMPONENTS } from "@gpve/domain/vcluster/vnode/images.ts";
import { kataRuntimeClass } from "@gpve/domain/vcluster/vnode/kata.ts";
import { localStorageClass } from "@gpve/domain/vcluster/vnode/local-volumes.ts";
import type { ClusterApi, VnodeHost } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { KeptVnode } from "@gpve/domain/vcluster/vnode/vnode.ts";
import {
  extraVnodes,
  totalWorkers,
  wantedVnodes,
  withWorkers,
  workersIn,
} from "@gpve/domain/vcluster/vnode/worker-pools.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { StepContext } from "@gpve/kit/operation/definition.ts";
import { drainNode } from "./drain-node.ts";
import { judgeObjects } from "./judge-objects.ts";
import { requireEmpty } from "./require-empty.ts";
import { expectStatus, registerNode } from "./register-node.ts";
import { standGuard } from "./stand-guard.ts";

export interface WorkersDeps {
  readonly vnodes: VnodeHost;
  readonly api: ClusterApi;
  readonly clock: Clock;
  /** Brings a component to this node, in the version that workers get, where it is not there. */
  readonly ensureComponent: (name: string, ctx: StepContext) => Promise<void>;
  readonly nameServers: () => NodeNameServers;
}

const READY_MS = 300_000;
const LOOK_MS = 250;

export class Workers {
  readonly #deps: WorkersDeps;

  constructor(deps: WorkersDeps) {
    this.#deps = deps;
  }

  /** As many as it shall have, each ready; one that is there and whole is left alone. */
  async bring(cluster: KeptCluster, ctx: StepContext): Promise<void> {
    const { vnodes, api } = this.#deps;
    const { name, spec } = cluster;
    await this.#dropExtra(cluster, ctx);
    const wanted = wantedVnodes(spec, vnodes.list(name)).filter(({ slot }) =>
      isOwnSlot(cluster.overlay, slot),
    );
    if (wanted.length === 0) {
      // Its API server calls pods of workers on other nodes: webhooks, other API servers.
      if (replicaSlot(cluster.overlay) !== undefined) await vnodes.route(cluster);
      return;
    }
    // Each node for itself, also where the control plane is another's: nobody says when that one is done with it.
    const keepsObjects = replicaSlot(cluster.overlay) !== undefined;
    await standGuard(api, cluster, { clock: this.#deps.clock, signal: ctx.signal }, { keepsObjects });
    if (vnodes.list(name).length === 0 && spec.privileged !== true)
      await judgeObjects(api, cluster, ctx.signal);
    await this.equip(spec, ctx);
    for (const vnode of wanted) {
      vnodes.save(name, vnode);
      await registerNode(api, cluster, vnode, ctx.signal);
      await vnodes.start(cluster, vnode, ctx.signal);
    }
    await vnodes.route(cluster);
    for (const vnode of wanted) {
      await this.#ready(cluster, vnode, ctx.signal);
      ctx.log(`${vnode.name} is Ready`);
    }
    if (!isBranch(cluster)) await this.#furnish(cluster, ctx.signal);
  }

  /** Brings what they are made of to this node, where it is not there. */
  async equip(spec: KeptCluster["spec"], ctx: StepContext): Promise<void> {
    if (totalWorkers(spec) === 0) return;
    const more = spec.ingress === undefined ? [] : [INGRESS_COMPONENT];
    for (const component of [...WORKER_COMPONENTS, ...more]) await this.#deps.ensureComponent(component, ctx);
  }

  /** With their pods; what is on their disks stays. */
  async stop(cluster: KeptCluster): Promise<void> {
    const { vnodes } = this.#deps;
    for (const vnode of vnodes.list(cluster.name).toReversed()) {
      vnodes.save(cluster.name, { ...vnode, isWanted: false });
      await vnodes.stop(cluster, vnode);
    }
  }

  /** All that is left of them, where the cluster goes as a whole: nobody is asked to leave. `keep`: it lives on elsewhere, and
   * is told where what its volumes had here is. */
  async remove(cluster: KeptCluster, keep?: (line: string) => void): Promise<void> {
    const { vnodes } = this.#deps;
    await this.stop(cluster);
    for (const vnode of vnodes.list(cluster.name)) {
      const left = keep === undefined ? undefined : vnodes.putVolumesAside(cluster.name, vnode);
      if (left !== undefined)
        keep?.(
          `what the persistent volumes of ${vnode.name} of ${cluster.name} had on this node is in ${left}: copy it to where it is wanted, then remove it`,
        );
      await vnodes.remove(cluster, vnode);
    }
  }

  /** Throws where somebody has volumes on those that such a spec has none of any more. */
  requireEmpty({ name }: Pick<KeptCluster, "name">, spec: KeptCluster["spec"]): void {
    const { vnodes } = this.#deps;
    requireEmpty(vnodes, name, extraVnodes(spec, vnodes.list(name)));
  }

  /** Cordoned, drained, then gone without a trace. One that has got a volume until then stays. */
  async drop(cluster: KeptCluster, vnode: KeptVnode, ctx: StepContext): Promise<void> {
    const { vnodes, api, clock } = this.#deps;
    const call = (request: Parameters<ClusterApi>[1]) => api(cluster, request, ctx.signal);
    // Whoever administers the cluster may have it refuse anything; the room of its workers is given back all the same.
    const tried = async (work: () => Promise<void>): Promise<void> => {
      await work().catch((err: unknown) => {
        if (ctx.signal.aborted) throw err;
        ctx.warn(`${vnode.name} goes although its cluster refuses: ${messageOf(err)}`);
      });
    };
    await tried(() =>
      drainNode(call, vnode.name, { clock, signal: ctx.signal, log: ctx.log, warn: ctx.warn }),
    );
    try {
      requireEmpty(vnodes, cluster.name, [vnode]);
    } catch (err) {
      await registerNode(api, cluster, vnode, ctx.signal).catch((refusal: unknown) => {
        ctx.warn(`${vnode.name} stays, and cordoned: ${messageOf(refusal)}`);
      });
      throw err;
    }
    vnodes.save(cluster.name, { ...vnode, isWanted: false });
    await vnodes.stop(cluster, vnode);
    for (const path of [
      `/api/v1/nodes/${vnode.name}`,
      `/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/${vnode.name}`,
    ])
      await tried(() => expectStatus(api, cluster, { method: "DELETE", path }, [200, 202, 404], ctx.signal));
    await vnodes.remove(cluster, vnode);
    ctx.log(`${vnode.name} is gone`);
  }

  /** Those of a group beyond `most` go again, but for those on which somebody has volumes by now. Answers with how many stay. */
  async giveBack(
    cluster: KeptCluster,
    { pool, most }: { readonly pool: string | undefined; readonly most: number },
    ctx: StepContext,
  ): Promise<number> {
    const { vnodes } = this.#deps;
    const { name, spec } = cluster;
    let count = workersIn(spec, pool);
    const areEmpty = (): boolean =>
      extraVnodes(withWorkers(spec, pool, count - 1), vnodes.list(name)).every(
        (vnode) => vnodes.volumes(name, vnode).length === 0,
      );
    while (count > most && areEmpty()) count--;
    await this.#dropExtra({ ...cluster, spec: withWorkers(spec, pool, count) }, ctx);
    return count;
  }

  /** Those of a group that were to go and did not are workers still, and used as before. Answers with how many it has: `most` at
   * most. What of them does not run again is for whoever keeps workers whole. */
  async keepLeft(
    cluster: KeptCluster,
    { pool, most }: { readonly pool: string | undefined; readonly most: number },
    ctx: StepContext,
  ): Promise<number> {
    const { vnodes, api } = this.#deps;
    const { name, spec } = cluster;
    const extra = extraVnodes(spec, vnodes.list(name));
    const beyond = (count: number): readonly KeptVnode[] =>
      extraVnodes(withWorkers(spec, pool, count), vnodes.list(name));
    let count = workersIn(spec, pool);
    while (count < most && beyond(count).length > beyond(most).length) count++;
    const gone = new Set(beyond(count).map((vnode) => vnode.name));
    const stays = extra.filter((vnode) => !gone.has(vnode.name));
    for (const vnode of stays) {
      vnodes.save(name, { ...vnode, isWanted: true });
      try {
        await registerNode(api, cluster, vnode, ctx.signal);
        await vnodes.start(cluster, vnode, ctx.signal);
      } catch (err) {
        ctx.warn(`${vnode.name} stays, and does not run: ${messageOf(err)}`);
      }
    }
    if (stays.length > 0)
      await vnodes.route(cluster).catch((err: unknown) => {
        ctx.warn(`the ways between pods are not all there: ${messageOf(err)}`);
      });
    return count;
  }

  /** Those beyond what it shall have leave, the last first. */
  async #dropExtra(cluster: KeptCluster, ctx: StepContext): Promise<void> {
    const { vnodes } = this.#deps;
    const extra = extraVnodes(cluster.spec, vnodes.list(cluster.name));
    requireEmpty(vnodes, cluster.name, extra);
    for (const vnode of extra.toReversed()) await this.drop(cluster, vnode, ctx);
    if (extra.length > 0) await vnodes.route(cluster);
  }

  async #ready(cluster: KeptCluster, vnode: KeptVnode, signal: AbortSignal): Promise<void> {
    const { clock, api, vnodes } = this.#deps;
    const until = clock.monotonic() + READY_MS;
    for (;;) {
      const { status, body } = await api(
        cluster,
        { method: "GET", path: `/api/v1/nodes/${vnode.name}` },
        signal,
      );
      const { conditions = [] } = ((body ?? {}) as NodeBody).status ?? {};
      const ready = conditions.find(({ type }) => type === "Ready");
      if (status === 200 && ready?.status === "True") return;
      if (clock.monotonic() > until)
        throw new AppError(
          "request.timeout",
          `${vnode.name} of ${cluster.name} is not Ready after ${READY_MS / 1000} s: ${ready?.message ?? "its kubelet says nothing"}; ${vnodes.lastWords(cluster.name, vnode).slice(-3).join(" | ").slice(-600)}`,
        );
      await clock.sleep(LOOK_MS, signal);
    }
  }

  /** What is there stays, also where somebody changed it. */
  async #furnish(cluster: KeptCluster, signal: AbortSignal): Promise<void> {
    const { api } = this.#deps;
    const storage = { path: "/apis/storage.k8s.io/v1/storageclasses", body: localStorageClass };
    const classes = cluster.spec.isolationLevel === "L2" ? [kataRuntimeClass] : [];
    const ingress = cluster.spec.ingress === undefined ? [] : clusterIngress(IMAGES.traefik);
    const dns = clusterDns(cluster.spec, IMAGES.coredns, this.#deps.nameServers);
    for (const { path, body } of [...dns, storage, ...classes, ...ingress]) {
      const found = await api(cluster, { method: "GET", path: `${path}/${body.metadata.name}` }, signal);
      if (found.status === 404)
        await expectStatus(api, cluster, { method: "POST", path, body }, [201, 409], signal);
    }
  }
}

interface NodeBody {
  readonly status?: {
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly message?: string;
    }[];
  };
}
