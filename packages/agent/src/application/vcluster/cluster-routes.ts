// The node's part of /api/v1's virtual clusters.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { VclusterPodRow } from "@gpve/contracts/agent/agent-messages.ts";
import type { Component } from "@gpve/domain/component/component.ts";
import type { ComponentStore } from "@gpve/domain/component/ports.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import {
  type ClusterAuthority,
  type ClusterGround,
  type ClusterKubeconfigs,
  type ClusterParts,
  type KeptCluster,
  type KeptClusters,
  calledOf,
} from "@gpve/domain/vcluster/ports.ts";
import type { ClusterApi, VnodeDeviceHost, VnodeHost } from "@gpve/domain/vcluster/vnode/ports.ts";
import { readClusterQuota, withQuota } from "@gpve/domain/vcluster/cluster-quota.ts";
import { replicaSlot } from "@gpve/domain/vcluster/overlay.ts";
import { requireFreeNetworks, type TakenNetwork } from "@gpve/domain/vcluster/free-networks.ts";
import { readExternalKeys } from "@gpve/domain/vcluster/backing-store.ts";
import type { OidcIssuer } from "@gpve/domain/vcluster/issuer.ts";
import { readSleepPolicy } from "@gpve/domain/vcluster/power/sleep-policy.ts";
import { requireNoVolumes } from "@gpve/domain/vcluster/vnode/volumes-in-use.ts";
import { guardKind } from "@gpve/domain/vcluster/vnode/guard.ts";
import {
  readVirtualClusterSpec,
  shownVirtualClusterSpec,
  type VirtualClusterSpec,
} from "@gpve/domain/vcluster/vcluster-spec.ts";
import {
  extraVnodes,
  totalWorkers,
  wantedVnodes,
  withWorkers,
  workersIn,
} from "@gpve/domain/vcluster/vnode/worker-pools.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { OwnHandlers } from "../agent.ts";
import { catalogued, installedVersion } from "../component/find-component.ts";
import { requireEmpty } from "../vnode/require-empty.ts";
import { clusterWork, type NamedCluster, ownCluster } from "./asked-cluster.ts";
import {
  CREATE_CLUSTER,
  DELETE_CLUSTER,
  type DeleteArgs,
  type NewClusterArgs,
  RETRY_CLUSTER,
  SCALE_CLUSTER,
  type ScaleArgs,
  START_CLUSTER,
  STOP_CLUSTER,
} from "./cluster-operations.ts";
import { listKubeconfigs } from "./list-kubeconfigs.ts";
import { ALLOWED, type Allowed, requireAnswering, requireNow, requireRunning } from "./require-phase.ts";
import { SLEEP_CLUSTER, type SleepArgs, WAKE_CLUSTER, type WakeArgs } from "./power/power-operations.ts";

type ClusterRoute =
  | "POST /gpve/nodes/{node}/vclusters"
  | "DELETE /gpve/nodes/{node}/vclusters/{vcluster}"
  | `PUT /gpve/nodes/{node}/vclusters/{vcluster}/${"sleep-policy" | "quota"}`
  | `POST /gpve/nodes/{node}/vclusters/{vcluster}/${"start" | "stop" | "retry" | "scale" | "kubeconfig" | "sleep" | "wake"}`
  | "GET /gpve/nodes/{node}/vclusters/{vcluster}/kubeconfigs"
  | "DELETE /gpve/nodes/{node}/vclusters/{vcluster}/kubeconfigs/{id}"
  | "GET /gpve/nodes/{node}/vclusters/{vcluster}/authority"
  | "GET /gpve/nodes/{node}/vclusters/{vcluster}/pods"
  | `GET /gpve/nodes/{node}/vclusters/{vcluster}/${"volumes" | "scale"}`
  | "GET /gpve/nodes/{node}/vcluster-pods"
  | "GET /gpve/nodes/{node}/vclusters/{vcluster}/log";

export interface ClusterRouteDeps {
  readonly host: KeptClusters & ClusterAuthority & ClusterKubeconfigs & ClusterGround & ClusterParts;
  readonly vnodes: Pick<VnodeHost, "list" | "pods" | "volumes">;
  readonly devices: Pick<VnodeDeviceHost, "require">;
  /** Only asked while somebody waits for the answer: it is to say soon that there is none. */
  readonly api: ClusterApi;
  readonly clock: Pick<Clock, "now">;
  readonly components: Pick<ComponentStore, "list">;
  readonly catalogue: readonly Component[];
  readonly engine: Pick<OperationEngine, "submit">;
  /** What was asked of its API server last. */
  readonly auditLines: (cluster: KeptCluster) => readonly string[];
  /** Throws why a cluster of that version cannot have this issuer here. */
  readonly requireIssuer: (issuer: OidcIssuer, version: string) => Promise<void>;
  /** That version of Kubernetes, or the newest older patch of its minor that can be had. */
  readonly obtainable: (version: string, signal: AbortSignal) => Promise<string>;
  /** Those that this node is in. */
  readonly hostNetworks: () => readonly TakenNetwork[];
  /** Throws why persistent volumes cannot be on that storage here. */
  readonly volumeStorage: (storage: string) => Promise<unknown>;
  /** Throws what this node lacks for workers whose pods are machines (level L2). */
  readonly requireKata: () => Promise<void>;
  /** Resolves when it is awake. */
  readonly awake: (name: string) => Promise<void>;
}

/** A cluster, and what it is to be. */
interface Scalable extends Pick<KeptCluster, "name" | "spec"> {
  readonly wanted: VirtualClusterSpec;
}

export function clusterRoutes(deps: ClusterRouteDeps): OwnHandlers<ClusterRoute> {
  const { host, engine } = deps;
  const submit = clusterWork<NewClusterArgs | ScaleArgs | SleepArgs | WakeArgs | DeleteArgs>(engine);
  const own = (asked: NamedCluster): KeptCluster => ownCluster(host, asked);
  const running = (asked: NamedCluster): KeptCluster => requireRunning(own(asked));
  const answering = (asked: NamedCluster): Promise<KeptCluster> => {
    const { name, phase } = requireAnswering(own(asked));
    // To be woken it would wait until its workers have come.
    const woken = phase === "Scaling" ? Promise.resolve() : deps.awake(name);
    return woken.then(() => requireAnswering(own(asked)));
  };
  /** Throws where it cannot have as many. */
  const scalable = ({
    workers,
    pool,
    ...asked
  }: NamedCluster & { readonly workers: number; readonly pool?: string }): Scalable => {
    const { name, spec, version } = running(asked);
    // As many are refused as at the creation.
    const wanted = readVirtualClusterSpec(shownVirtualClusterSpec(withWorkers(spec, pool, workers)));
    if (workers > 0) requireGuard(version);
    requireEmpty(deps.vnodes, name, extraVnodes(wanted, deps.vnodes.list(name)));
    return { name, spec, wanted };
  };
  const work =
    (type: string, allowed: Allowed) =>
    async (asked: NamedCluster & { readonly requestId: string }, ctx: RequestContext): Promise<string> => {
      const kept = own(asked);
      requireNow(kept, allowed);
      return submit(type, { name: kept.name }, asked.requestId, ctx);
    };
  return {
    "POST /gpve/nodes/{node}/vclusters": async (asked, ctx) => {
      const { vcluster, called, tenant, spec, requestId, network, overlay, secrets } = asked;
      const wanted = readVirtualClusterSpec(spec);
      const newest = kubernetesVersion(deps, wanted.kubernetesVersion);
      const version =
        newest === wanted.kubernetesVersion ? newest : await deps.obtainable(newest, ctx.signal);
      requireFreeNetworks(wanted, deps.hostNetworks());
      if (totalWorkers(wanted) > 0) requireGuard(version);
      if (wanted.isolationLevel === "L2") await deps.requireKata();
      await deps.devices.require(vcluster, wantedVnodes(wanted, deps.vnodes.list(vcluster)));
      if (wanted.volumeStorage !== undefined) await deps.volumeStorage(wanted.volumeStorage);
      if (wanted.oidc !== undefined) await deps.requireIssuer(wanted.oidc, version);
      const before = host.get(vcluster);
      if (before !== undefined && before.tenant !== tenant)
        throw new AppError("object.exists", `this node has a virtual cluster '${vcluster}' already`);
      const slot = replicaSlot(overlay);
      const isFirst = slot !== undefined && secrets === undefined ? true : undefined;
      const place = given({ called, network, overlay, isFirst });
      const args = { name: vcluster, tenant, spec: wanted, version, ...place };
      if (before !== undefined) return submit(CREATE_CLUSTER, args, requestId, ctx);
      if (network !== undefined && host.list().some((each) => each.network === network))
        throw new AppError(
          "object.conflict",
          `network ${network} of this node is another virtual cluster's: try again, another is taken then`,
        );
      const refusal = overlay === undefined ? undefined : await host.overlayRefusal();
      if (refusal !== undefined) throw new AppError("feature.unsupported", refusal);
      try {
        // As files, at once: what operations are told lies in the journal.
        if (secrets !== undefined) host.takeAuthority(vcluster, secrets);
        else if (wanted.backingStore === "external") host.keepStoreKeys(vcluster, readExternalKeys(spec));
        // The servers ask for what signs as soon as this is answered.
        if (overlay?.at === 0 && secrets === undefined) {
          await host.authority(vcluster, slot === undefined ? "workers" : "replica");
          host.save({ ...args, phase: "Pending", isWanted: false });
        }
        return await submit(CREATE_CLUSTER, args, requestId, ctx);
      } catch (err) {
        await host.remove(vcluster, () => undefined);
        throw err;
      }
    },
    "GET /gpve/nodes/{node}/vclusters/{vcluster}/authority": async (asked) => {
      const { name, version, overlay } = own(asked);
      const who = replicaSlot(overlay) === undefined ? "workers" : "replica";
      return { version, secrets: { ...(await host.authority(name, who)) } };
    },
    "DELETE /gpve/nodes/{node}/vclusters/{vcluster}": (asked, ctx) => {
      // One that never came here is as good as gone.
      const kept = host.get(asked.vcluster) === undefined ? undefined : own(asked);
      const { vcluster: name, keepVolumes, force, requestId } = asked;
      // As it is now: what servers know was so a moment ago.
      if (kept !== undefined && force !== true && keepVolumes !== true)
        requireNoVolumes(calledOf(kept), volumesLeft(deps.vnodes, kept).length);
      return submit(DELETE_CLUSTER, { name, ...given({ keepVolumes }) }, requestId, ctx);
    },
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/start": async (asked, ctx) => {
      const kept = own(asked);
      requireNow(kept, ALLOWED.start);
      const { name, phase, asleep } = kept;
      const sleeps = phase === "Running" && asleep !== undefined;
      return submit(sleeps ? WAKE_CLUSTER : START_CLUSTER, { name }, asked.requestId, ctx);
    },
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/stop": work(STOP_CLUSTER, ALLOWED.stop),
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/retry": work(RETRY_CLUSTER, ALLOWED.retry),
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/scale": ({ requestId, ...asked }, ctx) => {
      const { name, wanted } = scalable(asked);
      const { workers, pool } = asked;
      const args = { name, workers, ...given({ pool }) };
      return deps.devices
        .require(name, wantedVnodes(wanted, deps.vnodes.list(name)))
        .then(() => deps.awake(name))
        .then(() => submit(SCALE_CLUSTER, args, requestId, ctx));
    },
    "GET /gpve/nodes/{node}/vclusters/{vcluster}/scale": (asked) => ({
      workers: workersIn(scalable(asked).spec, asked.pool),
    }),
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/wake": async ({ forSeconds, requestId, ...asked }, ctx) => {
      const kept = own(asked);
      requireNow(kept, ALLOWED.wake);
      const heldUntil = forSeconds === undefined ? undefined : deps.clock.now() + forSeconds * 1_000;
      return submit(WAKE_CLUSTER, { name: kept.name, ...given({ heldUntil }) }, requestId, ctx);
    },
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/sleep": ({ mode, ...asked }, ctx) =>
      submit(SLEEP_CLUSTER, { name: running(asked).name, mode }, asked.requestId, ctx),
    "PUT /gpve/nodes/{node}/vclusters/{vcluster}/sleep-policy": (asked) => {
      const kept = own(asked);
      const { mode, afterIdleSeconds, keepAwake, sleepAt, wakeAt } = asked;
      const said = { mode, afterIdleSeconds, keepAwake, sleepAt, wakeAt };
      const sleep = readSleepPolicy(said, kept.spec.tier);
      host.save({ ...kept, spec: { ...kept.spec, sleep } });
      return null;
    },
    "PUT /gpve/nodes/{node}/vclusters/{vcluster}/quota": ({ quota, ...asked }) => {
      const kept = own(asked);
      host.save({ ...kept, spec: withQuota(kept.spec, readClusterQuota(quota)) });
      return null;
    },
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/kubeconfig": ({ hours, server, ...asked }, ctx) => {
      const ask = { user: ctx.actor?.authid ?? "", lifetimeMs: hours * 3_600_000, ...given({ server }) };
      return answering(asked).then((cluster) => host.kubeconfig(cluster, ask, ctx.signal));
    },
    "GET /gpve/nodes/{node}/vclusters/{vcluster}/kubeconfigs": async (asked, ctx) =>
      listKubeconfigs(deps, await answering(asked), ctx.signal),
    "DELETE /gpve/nodes/{node}/vclusters/{vcluster}/kubeconfigs/{id}": async ({ id, ...asked }, ctx) => {
      await host.revokeKubeconfig(await answering(asked), id, ctx.signal);
      return null;
    },
    "GET /gpve/nodes/{node}/vclusters/{vcluster}/pods": (asked) => podRows(deps.vnodes, own(asked)),
    "GET /gpve/nodes/{node}/vclusters/{vcluster}/volumes": (asked) =>
      host.get(asked.vcluster) === undefined ? [] : volumesLeft(deps.vnodes, own(asked)),
    "GET /gpve/nodes/{node}/vcluster-pods": () =>
      host.list().flatMap((cluster) => podRows(deps.vnodes, cluster)),
    "GET /gpve/nodes/{node}/vclusters/{vcluster}/log": ({ audit, ...asked }) => {
      const cluster = own(asked);
      return { lines: [...(audit === true ? deps.auditLines(cluster) : host.lastWords(cluster))] };
    },
  };
}

function podRows(vnodes: ClusterRouteDeps["vnodes"], cluster: KeptCluster): VclusterPodRow[] {
  const { name, tenant } = cluster;
  const vcluster = calledOf(cluster);
  return vnodes
    .list(name)
    .flatMap((vnode) =>
      vnodes.pods(cluster, vnode).map((pod) => ({ vcluster, tenant, vnode: vnode.name, ...pod })),
    );
}

/** Of one that is going already, they were judged when that began. */
function volumesLeft(
  vnodes: ClusterRouteDeps["vnodes"],
  { name, phase }: KeptCluster,
): { readonly vnode: string; readonly name: string }[] {
  if (phase === "Terminating") return [];
  return vnodes
    .list(name)
    .flatMap((vnode) => vnodes.volumes(name, vnode).map((each) => ({ vnode: vnode.name, name: each })));
}

/** A pod that may be anything is root on this machine. */
export function requireGuard(version: string): void {
  if (guardKind(version) !== undefined) return;
  throw new AppError(
    "request.invalid",
    `spec.workerNodes.count: workers need Kubernetes 1.32 or newer: whoever administers a cluster of ${version} can delete the rules that keep its pods from this machine`,
    { errors: { "spec.workerNodes.count": "needs Kubernetes 1.32 or newer" } },
  );
}

/** The newest of what is asked for that is here, else that can be brought; refused with what there is. */
export function kubernetesVersion(
  deps: Pick<ClusterRouteDeps, "components" | "catalogue">,
  wanted: string,
): string {
  const here = installedVersion(deps.components, "kubernetes", wanted);
  if (here !== undefined) return here;
  const { releases } = catalogued(deps.catalogue, "kubernetes");
  const known = releases.map(({ version }) => version);
  const found = known.find(
    (version) => wanted === "" || version === wanted || version.startsWith(`${wanted}.`),
  );
  if (found !== undefined) return found;
  const installed = deps.components.list().filter(({ name }) => name === "kubernetes");
  const has = installed.map(({ version }) => version).join(", ") || "none";
  throw new AppError(
    "request.invalid",
    `spec.kubernetesVersion: Kubernetes ${wanted} cannot be had: this node has ${has}, the catalogue ${known.join(", ")}. Any other version works when its programs are imported: gpvectl component import kubernetes ${wanted} --from FOLDER`,
    { errors: { "spec.kubernetesVersion": `is none of ${known.join(", ")}` } },
  );
}
