import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Fields } from "@gpve/contracts/json-object.ts";
import { virtualClusterKind } from "@gpve/contracts/v1/kinds/virtual-cluster.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import {
  DEFAULT_TENANT,
  keyOf,
  nodesOf,
  vclusterCollection,
  type VirtualClusterRecord,
} from "@gpve/domain/vcluster/vcluster-record.ts";
import { readClusterQuota, requireWithinQuota, withQuota } from "@gpve/domain/vcluster/cluster-quota.ts";
import { invalidSpec } from "@gpve/domain/vcluster/invalid-spec.ts";
import { type AwakeReason, isReady } from "@gpve/domain/vcluster/vcluster-runtime.ts";
import { readExternalKeys } from "@gpve/domain/vcluster/backing-store.ts";
import { readVirtualClusterSpec, shownVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { withWorkers, workersIn } from "@gpve/domain/vcluster/vnode/worker-pools.ts";
import type { CollectionDef, Entry } from "@gpve/store/records/port.ts";
import { clusterKeyFor } from "../../vcluster/cluster-names.ts";
import { plainWords } from "../../vcluster/plain-words.ts";
import { answeringNode, runtimeOn } from "../../vcluster/replicas/replica-nodes.ts";
import { replicaStatus } from "../../vcluster/replicas/replica-status.ts";
import { standbyStatus } from "../../vcluster/standby/standby-status.ts";
import type { VirtualClusters } from "../../vcluster/virtual-clusters.ts";
import { type ConditionClock, sinceOf } from "./node.ts";
import { byName, idOf, type KindAdapter, type ObjectName, type RawObject, type Reader } from "../adapter.ts";
import { diffFields, sameJson } from "../merge-patch.ts";

/** How it is changed, where not by its spec. */
const INSTEAD: ReadonlyMap<string, string> = new Map([
  ["spec.kubernetesVersion", "is changed by an upgrade (gpvectl vc upgrade, POST …/upgrade)"],
  ["spec.node", "is changed by a move (gpvectl vc migrate, POST …/migrate)"],
]);

type ActedOn = Pick<
  VirtualClusters,
  "create" | "remove" | "ready" | "setSleep" | "setQuota" | "setExposure" | "scale"
>;

export interface VirtualClusterDeps {
  readonly board: NodeBoard;
  readonly conditionTimes: ConditionClock;
  readonly vclusters: ActedOn;
}

/** What is wanted is in the store; what is, its node tells. */
export function virtualClusterAdapter({ board, vclusters, conditionTimes }: VirtualClusterDeps): KindAdapter {
  const raw = (entry: Entry<VirtualClusterRecord>): RawObject => {
    const { name, tenant, spec, madeBy } = entry.value;
    return {
      name,
      id: entry.id,
      namespace: tenant,
      spec: shownVirtualClusterSpec(spec),
      status: statusOf(board, entry.value, conditionTimes),
      revision: entry.revision,
      createRevision: entry.createRevision,
      generation: entry.version,
      madeBy,
    };
  };
  return {
    kind: virtualClusterKind,
    collections: [vclusterCollection as CollectionDef<unknown>],
    list: (reader) => reader.list(vclusterCollection).map(raw).toSorted(byName),
    get: (reader, key) => {
      const entry = reader.get(vclusterCollection, key);
      return entry === undefined ? undefined : raw(entry);
    },
    idFor: keyFor,
    // Its status is its record and what nodes have told.
    liveState: () => board.generation(),
    onChange: (records, changed) => records.collection(vclusterCollection).onChange((id) => changed([id])),
    act: actions(vclusters),
  };
}

/** What was applied when names were everybody's may say no tenant: of that name there was one then. */
function keyFor(reader: Reader, { name, namespace }: ObjectName): string {
  if (namespace === undefined && reader.get(vclusterCollection, name) !== undefined) return name;
  return clusterKeyFor(reader, { tenant: namespace ?? DEFAULT_TENANT, name });
}

function actions(vclusters: ActedOn): NonNullable<KindAdapter["act"]> {
  return {
    secrets: new Set(["spec.controlPlane.externalEtcdCertificates"]),
    settle: (reader, { name, namespace, spec }) =>
      settled(spec, reader.get(vclusterCollection, keyFor(reader, { name, namespace })) === undefined),
    async create({ name, namespace, spec, ctx }) {
      await vclusters.create({ name, namespace, spec }, ctx);
    },
    ready: (key, ctx) => vclusters.ready(key, ctx),
    async change({ name, namespace, spec, previous, ctx }) {
      const read = readVirtualClusterSpec(spec);
      const wanted = shownVirtualClusterSpec(read);
      if (namespace !== undefined && namespace !== previous.namespace)
        throw new AppError(
          "request.invalid",
          `virtual cluster '${name}' stays in tenant '${previous.namespace}'`,
        );
      const said = quotaOf(previous.spec, wanted);
      if (sameJson({ ...previous.spec, ...wanted, ...said }, previous.spec)) return;
      const before = readVirtualClusterSpec(previous.spec);
      const { sleep = before.sleep } = read;
      if (sleep?.fromStart === true && before.sleep?.fromStart !== true)
        throw invalidSpec(
          "sleep.fromStart",
          "says how a cluster is made, and this one is there: leave it out",
        );
      const groups = [undefined, ...(before.pools ?? []).map((pool) => pool.name)];
      const counts = groups.flatMap((pool) => {
        const count = read.pools?.find((each) => each.name === pool)?.count ?? workersIn(before, pool);
        return pool === undefined ? { pool, count: read.workers } : { pool, count };
      });
      const scaled = counts.reduce((spec, { pool, count }) => withWorkers(spec, pool, count), before);
      const quota = readClusterQuota((said["quota"] ?? {}) as Fields);
      const { exposure } = read;
      const { exposure: _before, ...bounded } = withQuota(scaled, quota);
      const possible = { ...bounded, ...given({ sleep, exposure }) };
      // As it was it may be bounded where this request says nothing.
      requireWithinQuota(possible);
      requireOnlyThose(name, shownVirtualClusterSpec(possible), { ...wanted, ...said });
      const [group, second] = counts.filter(({ pool, count }) => count !== workersIn(before, pool));
      if (second !== undefined)
        throw new AppError("request.invalid", "one group of workers is scaled at a time: change one count");
      if (sleep !== undefined && !sameJson(sleep, before.sleep))
        await vclusters.setSleep(idOf(previous), sleep, ctx);
      if (exposure !== before.exposure) await vclusters.setExposure(idOf(previous), exposure);
      if (!sameJson(said, quotaOf(previous.spec, {}))) await vclusters.setQuota(idOf(previous), quota, ctx);
      if (group !== undefined) await vclusters.scale(idOf(previous), group, ctx, ctx.requestId);
    },
    remove: ({ previous, ctx, force }) => vclusters.remove(idOf(previous), ctx, force),
    forestall: () => Promise.resolve(),
    discard: ({ previous, ctx }) => vclusters.remove(idOf(previous), ctx, true),
  };
}

/** A request that says none leaves what there is. */
function quotaOf({ quota: before }: Fields, { quota: wanted }: Fields): Fields {
  if (before === undefined) return given({ quota: wanted });
  return { quota: { ...(before as Fields), ...(wanted as Fields | undefined) } };
}

/** What is neither a number of workers nor a bound, nor how it is reached or sleeps, stays as it was made; says of each field what to do instead. */
function requireOnlyThose(name: string, possible: Fields, wanted: Fields): void {
  const paths = diffFields(possible, wanted, "spec").map(({ path }) => path);
  if (paths.length === 0) return;
  const whys = paths.map((path) => [path, INSTEAD.get(path) ?? "stays as it was made"] as const);
  throw new AppError(
    "request.invalid",
    `the spec of virtual cluster '${name}' can be changed in workerNodes.count, the counts of its pools, quota, networking.exposure and sleep: ${whys.map((why) => why.join(" ")).join("; ")}`,
    { errors: Object.fromEntries(whys) },
  );
}

/** The keys of an external store are told once, to the node that gets a new one, and shown to nobody. */
function settled(spec: Fields, isNew: boolean): Fields {
  const read = readVirtualClusterSpec(spec);
  const shown = shownVirtualClusterSpec(read);
  if (!isNew || read.backingStore !== "external") return shown;
  const controlPlane = { ...(shown["controlPlane"] as Fields) };
  return {
    ...shown,
    controlPlane: { ...controlPlane, externalEtcdCertificates: { ...readExternalKeys(spec) } },
  };
}

/** On all of its nodes; one that is gone tells of its own last. */
function vnodesOf(board: NodeBoard, record: VirtualClusterRecord): readonly Fields[] {
  return nodesOf(record).flatMap((node) =>
    (runtimeOn(board, node, keyOf(record))?.vnodes ?? []).map(({ cpus, cpuSeconds: _used, ...vnode }) => ({
      ...vnode,
      node,
      cpu: cpus,
    })),
  );
}

function statusOf(board: NodeBoard, record: VirtualClusterRecord, times: ConditionClock): Fields {
  const { name, tenant } = record;
  const node = answeringNode(board, record);
  const runtime = runtimeOn(board, node, keyOf(record));
  const isOnline = board.get(node)?.health === "online";
  const replicas = replicaStatus(board, record);
  const { standby, recovered, condition } = standbyStatus(board, record);
  // A node that is there and has not told of it has not begun.
  const phase = isOnline ? (runtime?.phase ?? "Pending") : "Unknown";
  const { endpoint, version, memoryBytes, probedAt } = runtime ?? {};
  const message = runtime?.message === undefined ? undefined : plainWords(record, runtime.message);
  const isAsleep = phase === "Running" && runtime?.asleep === true;
  const ready = runtime !== undefined && isReady(runtime) && replicas?.hasMajority !== false;
  // Of several, one that has just come knows nothing of before.
  const readySince = replicas === undefined ? runtime?.readySince : undefined;
  const since = readySince === undefined ? {} : { lastTransitionTime: new Date(readySince).toISOString() };
  return {
    phase,
    node,
    power: runtime?.power ?? "cold",
    ...given({ endpoint, kubernetesVersion: version, memoryBytes }),
    ...(probedAt === undefined ? {} : { lastProbeTime: new Date(probedAt).toISOString() }),
    vnodes: vnodesOf(board, record),
    ...given({ replicas: replicas?.rows, standby, recovered }),
    kubeconfig: `/api/v1/tenants/${encodeURIComponent(tenant)}/vclusters/${name}/kubeconfig`,
    conditions: [
      {
        type: "Ready",
        status: isOnline ? (ready ? "True" : "False") : "Unknown",
        reason: isOnline ? (isAsleep ? "Asleep" : phase) : "NodeOffline",
        ...given({ message }),
        // Nobody knows about it since nobody heard of its node.
        ...(isOnline ? since : sinceOf(times, node, { type: "Ready", status: "False" })),
      },
      ...(replicas === undefined ? [] : [replicas.condition]),
      ...(condition === undefined ? [] : [condition]),
      ...(phase === "Running" ? awakeCondition(record, runtime?.keptAwake) : []),
    ],
  };
}

/** Why it does not sleep; none of one that sleeps, or never does by itself. */
function awakeCondition(record: VirtualClusterRecord, told: AwakeReason | undefined): readonly Fields[] {
  if (told === undefined) return [];
  const { reason, message } = told;
  const status = reason === "Idle" ? "False" : "True";
  return [{ type: "KeptAwake", status, reason, message: plainWords(record, message) }];
}
