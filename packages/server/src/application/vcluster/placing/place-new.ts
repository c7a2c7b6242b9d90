// The nodes of a new virtual cluster: decided by the scheduler on the state of this moment, and written down with the cluster's
// record in one transaction, unless somebody took a place there meanwhile. Who names the node of a cluster that is on one alone
// has decided already.
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { CustomPlugin } from "@gpve/domain/scheduler/plugin.ts";
import type { OverlayNode } from "@gpve/domain/vcluster/overlay.ts";
import { placeReplicas } from "@gpve/domain/vcluster/replicas/replica-places.ts";
import { vclusterCollection, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import type { Placer } from "../../scheduler/placer.ts";
import { raiseTurns } from "../../scheduler/placement-turns.ts";
import { refusalError } from "../../scheduler/refusal-error.ts";
import { freeNetwork, overlayAddress } from "../spread-cluster.ts";
import type { PartDecision } from "./cluster-decisions.ts";
import { clusterFilters, nodeFilter, requireCandidates } from "./cluster-filters.ts";
import { type AskedCluster, clusterId, partRequest } from "./cluster-request.ts";
import { type DecidedPart, decideParts } from "./decide-parts.ts";
import { type NodesDeps, requireNewOn } from "./named-node.ts";
import { restoredPlace, type SeenFrom } from "./restored-place.ts";

export interface PlaceNewDeps extends NodesDeps {
  readonly records: Records;
  readonly placer: Pick<Placer, "preview" | "settle">;
  readonly clock: Pick<Clock, "now" | "monotonic" | "sleep">;
  /** How long nodes that have just come may take to say what they have; absent: they are not waited for. */
  readonly untoldMs?: number;
}

export interface PlacedNew extends Pick<VirtualClusterRecord, "node" | "spread"> {
  /** Of parts whose node nobody named. */
  readonly decisions: readonly PartDecision[];
}

export interface PlaceNewTerms<T> {
  readonly ctx: Pick<RequestContext, "signal" | "actor"> & Partial<Pick<RequestContext, "access">>;
  /** It is made of a backup. */
  readonly from?: SeenFrom | undefined;
  /** Throws where whoever asks may not have it there. */
  readonly allow: (nodes: readonly string[]) => void;
  readonly write: (tx: Tx, placed: PlacedNew) => T;
}

const UNTOLD_AGAIN_MS = 250;

export async function placeNew<T>(
  deps: PlaceNewDeps,
  asked: AskedCluster,
  { ctx, from, allow, write }: PlaceNewTerms<T>,
): Promise<T> {
  const { records, placer, clock } = deps;
  const { signal } = ctx;
  // What is in a backup is put on one node, however many the one before had.
  const spec = from === undefined ? asked.spec : { ...asked.spec, replicas: 1, spread: false };
  const cluster = { ...asked, spec };
  const home = from === undefined ? spec.node : from.isNamed ? from.node : "";
  if (home === "") requireCandidates(deps, spec);
  else requireNewOn(deps, { ...spec, node: home });
  if (home !== "" && spec.replicas === 1 && spec.spread !== true) {
    allow([home]);
    return records.transact(
      (tx) => {
        raiseTurns(tx, [home]);
        return write(tx, { node: home, decisions: [] });
      },
      { signal },
    );
  }
  await untilTold(deps, signal);
  const control = clusterFilters(deps, spec, { isNew: true });
  const filters = {
    control:
      from === undefined || from.isNamed
        ? control
        : [...control, ...(await backupAt(deps, cluster, control, from, ctx))],
    workers: clusterFilters(deps, spec),
  };
  const by = ctx.actor?.authid ?? "";
  const request = partRequest(cluster, { at: 0, of: 1 });
  return placer.settle(request, {
    signal,
    decide: (state, policy) => {
      const outcome = decideParts(state, policy, { cluster, filters, home });
      const { parts, refused } = outcome;
      if (refused !== undefined) throw tooFew(cluster, parts, refused, ctx);
      const nodes = parts.map(({ node }) => node);
      allow(nodes);
      return { nodes, parts, ...spreadOver(deps, cluster, nodes) };
    },
    commit: (tx, { parts, nodes: [node = ""], spread }, lost) => {
      const at = clock.now();
      const decisions = parts.flatMap(({ explanation, ...each }): PartDecision[] =>
        explanation === undefined ? [] : [{ ...each, at, by, lost, explanation }],
      );
      return write(tx, { node, decisions, ...given({ spread }) });
    },
  });
}

/** A node is online before it has said what it has: a moment later it could have been one of several. */
async function untilTold({ board, clock, untoldMs = 0 }: PlaceNewDeps, signal: AbortSignal): Promise<void> {
  const until = clock.monotonic() + untoldMs;
  const areUntold = (): boolean =>
    board
      .list()
      .some(
        ({ health, facts, report }) => health === "online" && (facts === undefined || report === undefined),
      );
  while (clock.monotonic() < until && areUntold()) await clock.sleep(UNTOLD_AGAIN_MS, signal);
}

/** Only there: nodes are asked, which the scheduler cannot. */
async function backupAt(
  deps: PlaceNewDeps,
  cluster: AskedCluster,
  control: readonly CustomPlugin[],
  from: SeenFrom,
  { signal }: Pick<RequestContext, "signal">,
): Promise<readonly CustomPlugin[]> {
  const explanation = await deps.placer.preview(partRequest(cluster, { at: 0, of: 1 }), signal, control);
  const at = await restoredPlace(explanation, from);
  if (at === undefined) return [];
  return [
    nodeFilter("BackupSeen", ({ name }) =>
      name === at ? undefined : `the backup is read on ${at}, which can have it`,
    ),
  ];
}

function spreadOver(
  { records, board }: PlaceNewDeps,
  { spec }: AskedCluster,
  nodes: readonly string[],
): Pick<VirtualClusterRecord, "spread"> {
  if (nodes.length < 2) return {};
  const known = records.collection(vclusterCollection).list();
  const overlay = nodes.map((node): OverlayNode =>
    overlayAddress({ node, address: board.get(node)?.address ?? "" }),
  );
  return {
    spread: {
      network: freeNetwork(known.map(({ value }) => value)),
      nodes: spec.replicas > 1 ? placeReplicas(overlay) : overlay,
    },
  };
}

/** With the reasons of nodes to who may see them: they name others' guests, and labels and figures of nodes. */
function tooFew(
  cluster: AskedCluster,
  found: readonly DecidedPart[],
  refused: Parameters<typeof refusalError>[1],
  { access }: Partial<Pick<RequestContext, "access">>,
): AppError {
  const { replicas } = cluster.spec;
  const terms = {
    maySeeNodes: access?.has("/nodes", ["Sys.Audit"]) === true,
    data: { request: clusterId(cluster) },
  };
  if (replicas === 1 || found.length === 0) {
    const { code, message, data } = refusalError("no node can have the virtual cluster", refused, terms);
    // What guests may use is seldom used by all of them.
    const isFull = refused.refused["NodeResourcesFit"] !== undefined;
    const way = isFull
      ? ". A node that is named (spec.node, gpvectl: --node) has it beside all that is there"
      : "";
    return new AppError(code, `${message}${way}`, { data });
  }
  const nodes = found.map(({ node }) => node).join(", ");
  const what = `spec.controlPlane.replicas: ${replicas} replicas are on as many nodes, and only these are online and fit: ${nodes}; ask for 1 replica, or add nodes`;
  const { message, data } = refusalError(what, refused, terms);
  return new AppError("request.invalid", message, {
    data,
    errors: { "spec.controlPlane.replicas": "are more than there are nodes" },
  });
}
