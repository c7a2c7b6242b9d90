// Virtual clusters at the servers: whether there is room, which node gets one, and what its node is told.
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { Fields } from "@gpve/contracts/json-object.ts";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import { moveCollection } from "@gpve/domain/guest/guest-move.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { SleepMode, SleepPolicy } from "@gpve/domain/vcluster/power/sleep-policy.ts";
import type { ClusterQuota } from "@gpve/domain/vcluster/cluster-quota.ts";
import { leftClusterCollection } from "@gpve/domain/vcluster/standby/left-cluster.ts";
import { nodeWords } from "@gpve/domain/vcluster/cluster-key.ts";
import {
  DEFAULT_TENANT,
  keyOf,
  nodesOf,
  vclusterCollection,
  type VirtualClusterRecord,
} from "@gpve/domain/vcluster/vcluster-record.ts";
import { readExternalKeys } from "@gpve/domain/vcluster/backing-store.ts";
import {
  readVirtualClusterSpec,
  requireNewCluster,
  type VirtualClusterSpec,
} from "@gpve/domain/vcluster/vcluster-spec.ts";
import { devicesIn } from "@gpve/domain/vcluster/devices/worker-devices.ts";
import { workersIn } from "@gpve/domain/vcluster/vnode/worker-pools.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import { isRefusal } from "../node/is-refusal.ts";
import { boundedVolumes } from "./volumes/bounded-volumes.ts";
import { makeEverywhere } from "./spread-cluster.ts";
import { requireReadable } from "./said-certificates.ts";
import { requireVolumeStorage } from "./volumes/volume-storage.ts";
import { requireMayBeRoot, requireWaysOut } from "./ways-out.ts";
import { forgetDecisions, writeDecisions } from "./placing/cluster-decisions.ts";
import { type PlacedNew, placeNew } from "./placing/place-new.ts";
import type { SeenFrom } from "./placing/restored-place.ts";
import { answeringNode, passingServer, requireAlone, workingNodes } from "./replicas/replica-nodes.ts";
import { removeCluster, type RemoveDeps, removeFrom } from "./removal/remove-cluster.ts";
import { requireRoom } from "./cluster-room.ts";
import { namedRecord } from "./cluster-names.ts";
import { revokeKubeconfig } from "./revoke-kubeconfig.ts";
import { type ScaleAsk, scaleCluster, type ScaleDeps } from "./scale-cluster.ts";
import { setQuota } from "./set-quota.ts";
import { untilRunning } from "./until-running.ts";
import type { Placer } from "../scheduler/placer.ts";

export interface VirtualClustersDeps extends RemoveDeps, ScaleDeps {
  readonly clock: Clock;
  readonly placer: Pick<Placer, "preview" | "settle">;
  /** As of placeNew. */
  readonly untoldMs?: number;
}

export interface NewCluster {
  readonly name: string;
  readonly namespace: string | undefined;
  readonly spec: Fields;
  /** A backup that it is made of: its volume, the tenant it was made in, and who sees it. */
  readonly from?: SeenFrom & { readonly archive: string; readonly source: string };
}

const KUBECONFIG_HOURS = 24;

/** All of them are asked for by their keys. */
export class VirtualClusters {
  readonly #deps: VirtualClustersDeps;

  constructor(deps: VirtualClustersDeps) {
    this.#deps = deps;
  }

  /** Writes it down and tells its node; answers with the UPID when the node has begun. */
  async create({ name, namespace, spec: asked, from }: NewCluster, ctx: RequestContext): Promise<string> {
    const { records, calls } = this.#deps;
    const tenant = namespace ?? DEFAULT_TENANT;
    const spec = boundedVolumes(this.#deps.quotas, tenant, asked);
    const wanted = readVirtualClusterSpec(spec);
    requireNewCluster(wanted);
    // Its node keeps them: they are in no record.
    const externalKeys = wanted.backingStore === "external" ? readExternalKeys(spec) : undefined;
    requireReadable({ ...wanted, externalKeys });
    requireVolumeStorage(records, wanted, ctx);
    requireMayBeRoot(wanted, ctx);
    const cluster = { name, tenant, spec: wanted };
    const record = await placeNew(this.#deps, cluster, {
      ctx,
      from,
      allow: (nodes) => nodes.forEach((node) => requireWaysOut(node, wanted, ctx)),
      write: (tx, placed) => this.#write(tx, { ...cluster, madeBy: ctx.requestId }, placed),
    });
    const { node, spread } = record;
    const words = nodeWords(record);
    try {
      if (spread !== undefined) return await makeEverywhere(calls, { ...words, spec }, spread, ctx);
      const params = { ...words, spec, requestId: ctx.requestId };
      if (from === undefined)
        return (await calls.call(node, "POST /gpve/nodes/{node}/vclusters", params, ctx)).data;
      const { archive, source } = from;
      const route = "POST /gpve/nodes/{node}/vclusters/{vcluster}/restore" as const;
      return (await calls.call(node, route, { ...params, archive, source, over: false }, ctx)).data;
    } catch (err) {
      // A node may have it all the same: while it is written down it counts, and can be deleted.
      if (!isRefusal(err) || (spread !== undefined && !(await this.#takeBack(record, ctx)))) throw err;
      // No node has it: nothing is left that could be asked about.
      await records.transact((tx) => {
        if (tx.get(vclusterCollection, words.vcluster)?.value.madeBy !== ctx.requestId) return;
        tx.delete(vclusterCollection, words.vcluster);
        forgetDecisions(tx, words.vcluster);
      });
      throw err;
    }
  }

  /** Resolves when it runs, with a kubeconfig where whoever asks may have one; throws when it fails. */
  async ready(key: string, ctx: RequestContext): Promise<Fields> {
    await untilRunning(this.#deps, this.require(key), ctx.signal);
    try {
      const { id, kubeconfig, expiresAt } = await this.kubeconfig(key, KUBECONFIG_HOURS, ctx);
      return { kubeconfig, kubeconfigId: id, kubeconfigExpiresAt: expiresAt };
    } catch (err) {
      if (err instanceof AppError && err.kind === "forbidden") return {};
      throw err;
    }
  }

  /** Its node is told first: what the store has is what holds. */
  async setSleep(key: string, sleep: SleepPolicy, ctx: RequestContext): Promise<void> {
    const { records, calls } = this.#deps;
    const { node, tenant } = this.require(key);
    const route = "PUT /gpve/nodes/{node}/vclusters/{vcluster}/sleep-policy" as const;
    // How it was made is the node's own to know.
    const { fromStart: _made, ...policy } = sleep;
    await calls.call(node, route, { vcluster: key, tenant, ...policy }, ctx);
    await records.transact((tx) => {
      const now = tx.get(vclusterCollection, key)?.value;
      if (now !== undefined) tx.put(vclusterCollection, key, { ...now, spec: { ...now.spec, sleep } });
    });
  }

  async setQuota(key: string, quota: ClusterQuota, ctx: RequestContext): Promise<void> {
    await setQuota(this.#deps, this.require(key), quota, ctx);
  }

  /** Where kubeconfigs that are asked for from now on lead. */
  async setExposure(key: string, exposure: VirtualClusterSpec["exposure"]): Promise<void> {
    await this.#deps.records.transact((tx) => {
      const now = tx.get(vclusterCollection, key)?.value;
      if (now === undefined) throw gone(key);
      const { exposure: _before, ...spec } = now.spec;
      tx.put(vclusterCollection, key, { ...now, spec: { ...spec, ...given({ exposure }) } });
    });
  }

  /** Resolves when nothing of it is left. `force`: also with persistent volumes. */
  async remove(key: string, ctx: RequestContext, force = false): Promise<void> {
    const record = this.require(key);
    requireStill(this.#deps.records, record);
    await removeCluster(this.#deps, record, force, ctx);
  }

  async kubeconfig(
    key: string,
    hours: number,
    ctx: RequestContext,
  ): Promise<{ readonly id: string; readonly kubeconfig: string; readonly expiresAt: string }> {
    const record = this.require(key);
    const { tenant } = record;
    const route = "POST /gpve/nodes/{node}/vclusters/{vcluster}/kubeconfig" as const;
    const server = passingServer(this.#deps.board, record, ctx.host);
    const asked = { vcluster: key, tenant, hours, ...given({ server }) };
    const { data } = await this.#deps.calls.call(this.#at(record), route, asked, ctx);
    return { ...data, expiresAt: new Date(data.expiresAt).toISOString() };
  }

  /** Those that are good, or may be. */
  async kubeconfigs(key: string, ctx: RequestContext): Promise<readonly Fields[]> {
    const record = this.require(key);
    const route = "GET /gpve/nodes/{node}/vclusters/{vcluster}/kubeconfigs" as const;
    const asked = { vcluster: key, tenant: record.tenant };
    const { data } = await this.#deps.calls.call(this.#at(record), route, asked, ctx);
    return data.map(({ expiresAt, ...row }) => ({
      ...row,
      ...(expiresAt === undefined ? {} : { expiresAt: new Date(expiresAt).toISOString() }),
    }));
  }

  async revoke(key: string, id: string, ctx: RequestContext): Promise<void> {
    await revokeKubeconfig(this.#deps, this.require(key), id, ctx);
  }

  /** Answers with the UPID. */
  async work(
    key: string,
    verb: "start" | "stop" | "retry" | "wake",
    ctx: RequestContext,
    requestId: string,
  ): Promise<string> {
    const record = this.require(key);
    const { tenant } = record;
    requireStill(this.#deps.records, record);
    const route = `POST /gpve/nodes/{node}/vclusters/{vcluster}/${verb}` as const;
    const call = async (at: string): Promise<string> =>
      (await this.#deps.calls.call(at, route, { vcluster: key, tenant, requestId }, ctx)).data;
    const [node = record.node, ...others] = workingNodes(this.#deps.board, record, verb);
    const done = await call(node);
    for (const other of others) await call(other);
    return done;
  }

  /** Answers with the UPID. */
  async scale(key: string, asked: ScaleAsk, ctx: RequestContext, requestId: string): Promise<string> {
    const record = this.require(key);
    const { spec } = record;
    const hasDevices = Object.keys(devicesIn(spec, asked.pool)).length > 0;
    if (hasDevices && asked.count > workersIn(spec, asked.pool)) requireMayBeRoot(spec, ctx);
    return scaleCluster(this.#deps, record, asked, ctx, requestId);
  }

  /** Answers with the UPID. */
  async sleep(key: string, mode: SleepMode, ctx: RequestContext, requestId: string): Promise<string> {
    const { name, node, tenant, spread } = this.require(key);
    requireAlone(name, spread, "sleep");
    const route = "POST /gpve/nodes/{node}/vclusters/{vcluster}/sleep" as const;
    return (await this.#deps.calls.call(node, route, { vcluster: key, tenant, mode, requestId }, ctx)).data;
  }

  async logs(key: string, ctx: RequestContext, audit = false): Promise<unknown> {
    const record = this.require(key);
    const route = "GET /gpve/nodes/{node}/vclusters/{vcluster}/log" as const;
    const asked = { vcluster: key, tenant: record.tenant, audit };
    return (await this.#deps.calls.call(this.#at(record), route, asked, ctx)).data;
  }

  require(key: string): VirtualClusterRecord {
    const found = this.#deps.records.collection(vclusterCollection).get(key)?.value;
    if (found !== undefined) return found;
    throw gone(key);
  }

  /** Whom to ask. */
  #at(record: VirtualClusterRecord): string {
    return answeringNode(this.#deps.board, record);
  }

  /** A node did not take its part: those that did give it up again. Answers whether nothing is left. */
  async #takeBack(record: VirtualClusterRecord, ctx: RequestContext): Promise<boolean> {
    let isGone = true;
    for (const node of nodesOf(record).toReversed())
      await removeFrom(this.#deps, node, record, {}, ctx).catch((err: unknown) => {
        ignore(err, "told by the first failure; what is left there goes when the cluster is deleted");
        isGone = false;
      });
    return isGone;
  }

  /** With the key that it has from now on. */
  #write(
    tx: Tx,
    base: Omit<VirtualClusterRecord, "node" | "spread">,
    { decisions, ...places }: PlacedNew,
  ): VirtualClusterRecord {
    const { name, tenant, spec } = base;
    const record = { ...base, ...places };
    const named = namedRecord(tx, record);
    if (tenant !== DEFAULT_TENANT && tx.get(poolsDef, tenant) === undefined)
      throw new AppError("request.invalid", `there is no tenant '${tenant}'`, {
        errors: { "metadata.namespace": "is no tenant" },
      });
    requireNothingLeft(tx, named);
    requireNetwork(tx, record);
    const what = `create virtual cluster ${name}`;
    requireRoom(tx, this.#deps.quotas, { what, tenant, before: undefined, after: spec });
    tx.put(vclusterCollection, keyOf(named), named);
    writeDecisions(tx, keyOf(named), decisions);
    return named;
  }
}

/** A node knows it by its key: what is to go there with that key must not be a new one. */
function requireNothingLeft(tx: Tx, record: VirtualClusterRecord): void {
  const left = tx.list(leftClusterCollection).filter(({ value }) => value.key === keyOf(record));
  if (left.length === 0) return;
  const nodes = left.map(({ value }) => value.node).join(", ");
  throw new AppError(
    "object.conflict",
    `a virtual cluster '${record.name}' was deleted while a node was away that still has something of it (${nodes}): choose another name until that is back, or remove the node (gpvectl node remove)`,
  );
}

/** Two that were made at once have not chosen the same one. */
function requireNetwork(tx: Tx, { spread }: VirtualClusterRecord): void {
  if (spread === undefined) return;
  const others = tx.list(vclusterCollection).map(({ value }) => value.spread?.network);
  if (others.includes(spread.network))
    throw new AppError(
      "object.conflict",
      "another virtual cluster was just given the same network: try again",
    );
}

/** Whose it is may change at any moment otherwise. */
function requireStill(records: Records, record: VirtualClusterRecord): void {
  const moves = records.collection(moveCollection).list();
  if (moves.some(({ value }) => value.vcluster === keyOf(record) && value.purpose === "vcluster"))
    throw new AppError(
      "object.conflict",
      `virtual cluster '${record.name}' is moving to another node: wait for that`,
    );
}

function gone(name: string): AppError {
  return new AppError("object.not_found", `there is no VirtualCluster '${name}'`);
}
