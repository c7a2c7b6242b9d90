// Virtual clusters at the servers: whether there is room, which node gets one, and what its node is told.
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { Fields } from "@gpve/contracts/json-object.ts";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import { moveCollection } from "@gpve/domain/guest/guest-move.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { SleepMode, SleepPolicy } from "@gpve/domain/vcluster/power/sleep-policy.ts";
import type { ClusterQuota } from "@gpve/domain/vcluster/cluster-quota.ts";
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
import { withWorkers, workersIn } from "@gpve/domain/vcluster/vnode/worker-pools.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import { isRefusal } from "../node/is-refusal.ts";
import { boundedVolumes } from "./bounded-volumes.ts";
import { freeNetwork, makeEverywhere, spreadNodes } from "./spread-cluster.ts";
import { requireReadable } from "./said-certificates.ts";
import { requireVolumeStorage } from "./volume-storage.ts";
import { requireMayBeRoot, requireWaysOut } from "./ways-out.ts";
import { fittingNodes, placeCluster, type PlaceDeps, requireRoomOn } from "./place-cluster.ts";
import { withOrder } from "./order-nodes.ts";
import {
  answeringNode,
  passingServer,
  placedReplicas,
  requireAlone,
  requireWhole,
  workingNodes,
} from "./replicas/replica-nodes.ts";
import { removeCluster, type RemoveDeps, removeFrom } from "./remove-cluster.ts";
import { requireRoom } from "./cluster-room.ts";
import { namedRecord } from "./cluster-names.ts";
import { setQuota } from "./set-quota.ts";
import { untilRunning } from "./until-running.ts";
import type { QuotaView } from "../quota/quota-view.ts";
import type { Placer } from "../scheduler/placer.ts";

export interface VirtualClustersDeps extends RemoveDeps {
  readonly clock: Clock;
  readonly quotas: Pick<QuotaView, "quotasOn" | "usage">;
  /** For clusters with rules of their own; absent: there is no scheduler, and they are refused. */
  readonly placer: Pick<Placer, "preview">;
}

/** How many workers, and in which pool; absent: those of the cluster itself. */
export interface ScaleAsk {
  readonly count: number;
  readonly pool?: string | undefined;
}

export interface NewCluster {
  readonly name: string;
  readonly namespace: string | undefined;
  readonly spec: Fields;
  /** A backup that it is made of: its volume, the tenant it was made in, and a node that has it. */
  readonly from?: { readonly archive: string; readonly source: string; readonly node: string };
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
    const place = await withOrder(this.#deps, { name, tenant, spec: wanted }, ctx);
    const node = from?.node ?? placeCluster(place, wanted);
    // What is in a backup has all been on one node.
    const spread = from === undefined ? this.#spread(place, wanted, node) : undefined;
    for (const each of nodesOf({ node, ...given({ spread }) })) requireWaysOut(each, wanted, ctx);
    const base = { name, tenant, node, spec: wanted, madeBy: ctx.requestId };
    const record = await this.#write({ ...base, ...given({ spread }) }, ctx);
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
        if (tx.get(vclusterCollection, words.vcluster)?.value.madeBy === ctx.requestId)
          tx.delete(vclusterCollection, words.vcluster);
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

  /** Resolves when nothing of it is left. */
  async remove(key: string, ctx: RequestContext): Promise<void> {
    const record = this.require(key);
    requireStill(this.#deps.records, record);
    await removeCluster(this.#deps, record, ctx);
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

  /** Those that are good. */
  async kubeconfigs(key: string, ctx: RequestContext): Promise<readonly Fields[]> {
    const record = this.require(key);
    const route = "GET /gpve/nodes/{node}/vclusters/{vcluster}/kubeconfigs" as const;
    const asked = { vcluster: key, tenant: record.tenant };
    const { data } = await this.#deps.calls.call(this.#at(record), route, asked, ctx);
    return data.map((row) => ({ ...row, expiresAt: new Date(row.expiresAt).toISOString() }));
  }

  async revoke(key: string, id: string, ctx: RequestContext): Promise<void> {
    const record = this.require(key);
    const route = "DELETE /gpve/nodes/{node}/vclusters/{vcluster}/kubeconfigs/{id}" as const;
    await this.#deps.calls.call(this.#at(record), route, { vcluster: key, tenant: record.tenant, id }, ctx);
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

  /** Answers with the UPID. More takes its room before the node is told, less gives it back when the node has taken it. */
  async scale(
    key: string,
    { count: workers, pool }: ScaleAsk,
    ctx: RequestContext,
    requestId: string,
  ): Promise<string> {
    const record = this.require(key);
    const { node, tenant } = record;
    requireWhole(this.#deps.board, record, "scale");
    const view = this.#deps.board.get(node);
    if (workers > workersIn(record.spec, pool)) {
      if (Object.keys(devicesIn(record.spec, pool)).length > 0) requireMayBeRoot(record.spec, ctx);
      if (view !== undefined) requireRoomOn(view, withWorkers(record.spec, pool, workers));
    }
    const route = "POST /gpve/nodes/{node}/vclusters/{vcluster}/scale" as const;
    const before = await this.#takeRoom(key, pool, workers);
    let isTaken = false;
    try {
      const params = { vcluster: key, tenant, workers, requestId, ...given({ pool }) };
      const { data } = await this.#deps.calls.call(node, route, params, ctx);
      isTaken = true;
      for (const other of this.#others(key)) await this.#deps.calls.call(other, route, params, ctx);
      if (workers < before) await this.#setWorkers(key, pool, { from: before, to: workers });
      return data;
    } catch (err) {
      // Where a node may have begun, what it makes counts.
      if (workers > before && !isTaken && isRefusal(err))
        await this.#setWorkers(key, pool, { from: workers, to: before });
      throw err;
    }
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

  /** Nodes that have workers of it and no control plane. */
  #others(key: string): readonly string[] {
    return nodesOf(this.require(key)).slice(1);
  }

  /** On how many nodes there are; undefined = on one. */
  #spread(place: PlaceDeps, spec: VirtualClusterSpec, home: string): VirtualClusterRecord["spread"] {
    const { spread, workers, replicas } = spec;
    if (spread !== true && replicas === 1) return undefined;
    const all = this.#deps.records.collection(vclusterCollection).list();
    const known = all.map(({ value }) => value);
    if (replicas > 1) return { network: freeNetwork(known), nodes: placedReplicas(place, spec, home) };
    const others = fittingNodes(place, spec).filter(({ node }) => node !== home);
    const nodes = spreadNodes([this.#deps.board.get(home) ?? [], others].flat(), known, { home, workers });
    return nodes === undefined ? undefined : { network: freeNetwork(known), nodes };
  }

  /** A node did not take its part: those that did give it up again. Answers whether nothing is left. */
  async #takeBack(record: VirtualClusterRecord, ctx: RequestContext): Promise<boolean> {
    let isGone = true;
    for (const node of nodesOf(record).toReversed())
      await removeFrom(this.#deps, node, record, ctx).catch((err: unknown) => {
        ignore(err, "told by the first failure; what is left there goes when the cluster is deleted");
        isGone = false;
      });
    return isGone;
  }

  /** Answers with how many it had. */
  async #takeRoom(key: string, pool: string | undefined, workers: number): Promise<number> {
    const { records, quotas } = this.#deps;
    return records.transact((tx) => {
      const now = tx.get(vclusterCollection, key)?.value;
      if (now === undefined) throw gone(key);
      const { name, spec, tenant } = now;
      const before = workersIn(spec, pool);
      if (workers <= before) return before;
      const after = withWorkers(spec, pool, workers);
      const what = `give virtual cluster ${name} ${workers} workers`;
      requireRoom(tx, quotas, { what, tenant, before: spec, after });
      tx.put(vclusterCollection, key, { ...now, spec: after });
      return before;
    });
  }

  /** Where nobody else has changed it meanwhile. */
  async #setWorkers(
    key: string,
    pool: string | undefined,
    { from, to }: { readonly from: number; readonly to: number },
  ): Promise<void> {
    await this.#deps.records.transact((tx) => {
      const now = tx.get(vclusterCollection, key)?.value;
      if (now === undefined || workersIn(now.spec, pool) !== from) return;
      tx.put(vclusterCollection, key, { ...now, spec: withWorkers(now.spec, pool, to) });
    });
  }

  /** With the key that it has from now on. */
  async #write(record: VirtualClusterRecord, ctx: RequestContext): Promise<VirtualClusterRecord> {
    const { records, quotas } = this.#deps;
    const { name, tenant } = record;
    return records.transact(
      (tx) => {
        const named = namedRecord(tx, record);
        if (tenant !== DEFAULT_TENANT && tx.get(poolsDef, tenant) === undefined)
          throw new AppError("request.invalid", `there is no tenant '${tenant}'`, {
            errors: { "metadata.namespace": "is no tenant" },
          });
        requireNetwork(tx, record);
        requireRoom(tx, quotas, {
          what: `create virtual cluster ${name}`,
          tenant,
          before: undefined,
          after: record.spec,
        });
        tx.put(vclusterCollection, keyOf(named), named);
        return named;
      },
      { signal: ctx.signal },
    );
  }
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
