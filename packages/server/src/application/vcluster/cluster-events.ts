// What happened to virtual clusters: steps of their lives as events, and those of one as its tenant may see them.
import { given } from "@gpve/contracts/given.ts";
import type { ClusterEvent } from "@gpve/contracts/v1/vc-answers.ts";
import type { NodeView } from "@gpve/domain/node/runtime.ts";
import { taskFromUpid } from "@gpve/domain/task/task.ts";
import { vclusterCollection, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { plainWords } from "./plain-words.ts";
import { eventCollection, type EventInput, type EventRecord, type RecordOptions } from "../v1/events.ts";

const KIND = "VirtualCluster";

/** Of the cluster that is there now; oldest first. What was before it with its name is another's. */
export function eventsOfCluster(records: Records, key: string): readonly ClusterEvent[] {
  const cluster = records.collection(vclusterCollection).get(key);
  if (cluster === undefined) return [];
  return records
    .collection(eventCollection)
    .list()
    .filter(({ createRevision }) => createRevision > cluster.createRevision)
    .map(({ value }) => value)
    .filter((event) => isAbout(event, key, cluster.value))
    .toSorted((a, b) => a.lastAt - b.lastAt)
    .map(({ type, reason, message, node, count, firstAt, lastAt }) => ({
      type,
      reason,
      message: plainWords(cluster.value, message),
      ...given({ node }),
      count,
      firstAt: new Date(firstAt).toISOString(),
      lastAt: new Date(lastAt).toISOString(),
    }));
}

/** Work on a cluster that failed is told of the task. */
function isAbout(
  { object }: EventRecord,
  key: string,
  { name, tenant }: Pick<VirtualClusterRecord, "name" | "tenant">,
): boolean {
  if (object.kind === KIND) return object.name === name && object.namespace === tenant;
  if (object.kind !== "Task") return false;
  const task = taskFromUpid(object.name);
  return task?.id === key && task.type.startsWith("vc");
}

/** Servers get to know of a step within this time of each other: what one has told, the others do not tell again. */
const SAME_STEP_MS = 60_000;

/** By its key; undefined = there is no such cluster, and nothing is told of it. */
export type ClusterOf = (key: string) => Pick<VirtualClusterRecord, "name" | "key" | "tenant"> | undefined;

export interface ClusterStep {
  readonly event: EventInput;
  readonly once: NonNullable<RecordOptions["once"]>;
}

/** Tells phases apart from what a node told before; of the first that it tells nothing is new. */
export class ClusterSteps {
  readonly #clusterOf: ClusterOf;
  readonly #told = new Map<string, ReadonlyMap<string, string>>();

  constructor(clusterOf: ClusterOf) {
    this.#clusterOf = clusterOf;
  }

  of({ node, report }: NodeView, now: number): readonly ClusterStep[] {
    const rows = report?.vclusters?.filter((row) => row.isBranch !== true);
    if (rows === undefined) return [];
    const before = this.#told.get(node);
    this.#told.set(node, new Map(rows.map(({ name: key, phase }) => [key, phase])));
    if (before === undefined) return [];
    return rows.flatMap(({ name: key, phase, message }) => {
      const was = before.get(key) ?? "Pending";
      const cluster = this.#clusterOf(key);
      if (was === phase || cluster === undefined) return [];
      const { name, tenant: namespace } = cluster;
      const why = message === undefined ? "" : `: ${plainWords(cluster, message)}`;
      const event: EventInput = {
        type: phase === "Failed" ? "Warning" : "Normal",
        reason: `VC${phase}`,
        object: { kind: KIND, name, namespace },
        node,
        message: `virtual cluster ${name} is ${phase}, was ${was}${why}`,
      };
      const at = Math.floor(now / SAME_STEP_MS) * SAME_STEP_MS;
      return [{ event, once: { at, text: `${node} ${namespace} ${name} ${phase}` } }];
    });
  }
}
