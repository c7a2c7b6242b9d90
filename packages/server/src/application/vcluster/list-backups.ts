// The backups of a virtual cluster, also of one that is gone: archives say by their names whose they are.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { VclusterBackupRow } from "@gpve/contracts/agent/vcluster-save-messages.ts";
import { clusterBackupCollection, clusterBackupTotals } from "@gpve/domain/backup/cluster-backups.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { contentOf, isDisabled, servesNode, storageCollection } from "@gpve/domain/storage/definition.ts";
import { type ClusterIdentity, nodeWords } from "@gpve/domain/vcluster/cluster-key.ts";
import { hasReplicas } from "@gpve/domain/vcluster/replicas/replica-places.ts";
import { nodesOf, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { NodeCalls } from "../node/call-agent.ts";
import { cacheReader } from "../v1/adapter.ts";
import { clusterKeyFor } from "./cluster-names.ts";

export interface ListBackupsDeps {
  readonly records: Records;
  readonly board: NodeBoard;
  readonly calls: Pick<NodeCalls, "call">;
}

/** Oldest first. */
export async function listBackups(
  deps: ListBackupsDeps,
  record: VirtualClusterRecord,
  ctx: RequestContext,
): Promise<readonly VclusterBackupRow[]> {
  const nodes = askedNodes(deps, record);
  const rows: VclusterBackupRow[] = [];
  for (const each of nodes) rows.push(...(await seenOn(deps, each, nodeWords(record), ctx)));
  return sorted(rows);
}

/** Of one that is gone, by whatever node sees them; refused where there is none: nothing tells that it ever was. */
export async function listLeftBackups(
  deps: ListBackupsDeps,
  gone: ClusterIdentity,
  ctx: RequestContext,
): Promise<readonly VclusterBackupRow[]> {
  const words = nodeWords({ ...gone, key: clusterKeyFor(cacheReader(deps.records), gone) });
  const nodes = askedNodes(deps, undefined);
  const rows: VclusterBackupRow[] = [];
  const failures: string[] = [];
  for (const node of nodes)
    try {
      rows.push(...(await seenOn(deps, node, words, ctx)));
    } catch (err) {
      failures.push(`${node}: ${messageOf(err)}`);
    }
  if (rows.length > 0) return sorted(rows);
  for (const node of nodes)
    failures.push(...awayOn(deps, node).map((storage) => `${node}: storage ${storage} is away`));
  const { name } = gone;
  if (failures.length > 0)
    throw new AppError(
      "node.unavailable",
      `there is no VirtualCluster '${name}', and not every node says what backups there are of it (${failures.join("; ")})`,
    );
  throw new AppError(
    "object.not_found",
    `there is no VirtualCluster '${name}', and no node that is online sees a backup of one`,
  );
}

/** Those that may have backups of it and cannot be looked at, by what its nodes reported last. undefined: it is gone. */
export function storagesAway(
  deps: Pick<ListBackupsDeps, "records" | "board">,
  record: VirtualClusterRecord | undefined,
): readonly string[] {
  const away = askedNodes(deps, record).flatMap((node) => awayOn(deps, node));
  return [...new Set(away)].toSorted();
}

/** Whose clusters of that name have backups, as nodes have written down what they see. */
export function tenantsWithBackups(
  { records, board }: Pick<ListBackupsDeps, "records" | "board">,
  name: string,
): readonly string[] {
  const seen = board
    .list()
    .flatMap(({ node }) => records.collection(clusterBackupCollection(node)).list())
    .map(({ value }) => value)
    .filter((each) => each.name === name);
  return clusterBackupTotals(seen).flatMap(({ tenant, backups }) => (backups > 0 ? [tenant] : []));
}

function askedNodes(
  deps: Pick<ListBackupsDeps, "board">,
  record: VirtualClusterRecord | undefined,
): readonly string[] {
  if (record === undefined)
    return deps.board.list().flatMap(({ node }) => (isOnline(deps, node) ? [node] : []));
  // Of several replicas it was the one that was asked: what it wrote may be seen by its node alone.
  const isSpread = hasReplicas(record.spread);
  return isSpread ? nodesOf(record).filter((each) => isOnline(deps, each)) : [record.node];
}

function awayOn(
  { records, board }: Pick<ListBackupsDeps, "records" | "board">,
  node: string,
): readonly string[] {
  const known = records.collection(storageCollection);
  return (board.get(node)?.report?.storages ?? []).flatMap(({ storage, active }) => {
    const found = active ? undefined : known.get(storage)?.value;
    const isBackups = found !== undefined && !isDisabled(found) && servesNode(found, node);
    return isBackups && contentOf(found).has("backup") ? [storage] : [];
  });
}

async function seenOn(
  { calls }: Pick<ListBackupsDeps, "calls">,
  node: string,
  words: ReturnType<typeof nodeWords>,
  ctx: RequestContext,
): Promise<readonly VclusterBackupRow[]> {
  const route = "GET /gpve/nodes/{node}/vclusters/{vcluster}/backups" as const;
  return (await calls.call(node, route, words, ctx)).data;
}

/** What several nodes see in one place is there once. */
function sorted(rows: readonly VclusterBackupRow[]): readonly VclusterBackupRow[] {
  const unique = new Map(rows.map((row) => [row.archive, row]));
  return [...unique.values()].toSorted((a, b) => a.time - b.time);
}

function isOnline({ board }: Pick<ListBackupsDeps, "board">, node: string): boolean {
  return board.get(node)?.health === "online";
}
