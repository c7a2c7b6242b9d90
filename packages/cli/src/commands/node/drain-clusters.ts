// Takes virtual clusters off a node that is drained: each control plane, then the workers it has there.
import type { GpveClient } from "@gpve/client/client.ts";
import type { V1Object } from "@gpve/client/object.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { Cli } from "../../command.ts";
import { vcCollection } from "../vc/find-vc.ts";

interface Drained {
  readonly moved: number;
  /** What could not move, with the reason. */
  readonly stuck: readonly string[];
  /** False where something stays that need not move. */
  readonly isEmpty: boolean;
}

export async function drainClusters(
  cli: Cli,
  client: GpveClient,
  node: string,
  target: () => Promise<string>,
): Promise<Drained> {
  const stuck: string[] = [];
  let moved = 0;
  let isEmpty = true;
  for await (const cluster of client.v1.listAll("vclusters")) {
    const { name, namespace } = cluster.metadata;
    const called = namespace === undefined ? name : `${namespace}/${name}`;
    const { hasReplica, hasControlPlane, workers } = partsOn(cluster, node);
    if (hasReplica) {
      cli.out.note(
        `Virtual cluster ${called} keeps a replica on ${node}: the others answer while ${node} is away.`,
      );
      isEmpty = false;
    }
    const path = `${vcCollection(namespace)}/${encodeURIComponent(name)}/migrate`;
    const parts = [...(hasControlPlane ? [undefined] : []), ...workers];
    for (const worker of parts) {
      const what = `${worker === undefined ? "" : `${worker} of `}virtual cluster ${called}`;
      try {
        const to = await target();
        const body = { target: to, ...given({ worker }) };
        const answer = await client.v1.post(path, body);
        if (isObject(answer)) await client.requireTask(String(answer["task"]), { signal: cli.signal });
        moved++;
        cli.out.done(`${what.replace(/^v/, "V")} is on ${to} now.`);
      } catch (err) {
        stuck.push(`${what}: ${messageOf(err).trim()}`);
      }
    }
  }
  return { moved, stuck, isEmpty };
}

function partsOn(
  { status }: V1Object,
  node: string,
): { readonly hasReplica: boolean; readonly hasControlPlane: boolean; readonly workers: readonly string[] } {
  const rows = (field: string): readonly Readonly<Record<string, unknown>>[] => {
    const list: unknown = status[field];
    return Array.isArray(list) ? list.filter(isObject) : [];
  };
  const replicas = rows("replicas");
  return {
    hasReplica: replicas.some((each) => each["node"] === node),
    hasControlPlane: replicas.length === 0 && status["node"] === node,
    workers: rows("vnodes").flatMap((each) => (each["node"] === node ? [String(each["name"])] : [])),
  };
}
