// What a virtual cluster asks of a node beside what guests ask, as filters of the scheduler: they speak beside its own, and
// their reasons are told and kept with them.
import { AppError } from "@gpve/contracts/errors.ts";
import type { NodeView } from "@gpve/domain/node/runtime.ts";
import type { SchedulerNode } from "@gpve/domain/scheduler/model.ts";
import type { CustomPlugin } from "@gpve/domain/scheduler/plugin.ts";
import { invalidSpec } from "@gpve/domain/vcluster/invalid-spec.ts";
import type { VirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { kataOf, kataRefused } from "@gpve/domain/vcluster/vnode/kata.ts";
import { nodeRecords } from "../../node/collections.ts";
import { whyNoVolumes } from "../volumes/volume-storage.ts";
import type { NodesDeps } from "./named-node.ts";
import { lackingLabel, whyNoControlPlane, whyNoDevices, whyNoStart } from "./node-refusal.ts";

export interface FilterTerms {
  /** It is to be made, and its control plane has to have what is asked for it. */
  readonly isNew?: boolean;
  /** What is there has its room there. */
  readonly there?: ReadonlySet<string>;
}

export function clusterFilters(
  { records, board }: NodesDeps,
  spec: VirtualClusterSpec,
  { isNew = false, there = new Set() }: FilterTerms = {},
): readonly CustomPlugin[] {
  const seen = (refuse: (view: NodeView) => string | undefined) => (node: SchedulerNode) => {
    const view = board.get(node.name);
    return view === undefined ? undefined : refuse(view);
  };
  return [
    nodeFilter("NodeSelector", ({ labels }) => {
      const lacking = lackingLabel(labels, spec);
      return lacking === undefined ? undefined : `it lacks the label ${lacking}`;
    }),
    nodeFilter("IsolationLevel", seen(whyNoLevel({ records, board }, spec))),
    nodeFilter("VolumeStorage", ({ name }) => whyNoVolumes(records, name, spec)),
    nodeFilter(
      "DeviceFit",
      seen((view) => (there.has(view.node) ? undefined : whyNoDevices(view, spec))),
    ),
    nodeFilter(
      "ControlPlaneRoom",
      seen((view) => (there.has(view.node) ? undefined : whyNoStart(view))),
    ),
    ...(isNew
      ? [
          nodeFilter(
            "ControlPlaneSize",
            seen((view) => whyNoControlPlane(view, spec)),
          ),
        ]
      : []),
  ];
}

export function nodeFilter(name: string, refuse: (node: SchedulerNode) => string | undefined): CustomPlugin {
  return { name, weight: 0, refuse };
}

/** Throws where it is plain without the scheduler that no node will do, with the field that asks for too much. */
export function requireCandidates(deps: NodesDeps, spec: VirtualClusterSpec): void {
  const online = deps.board.list().filter(({ health }) => health === "online");
  if (online.length === 0)
    throw new AppError("node.unavailable", "no node is online that could have a virtual cluster");
  const labelled = online.filter((view) => hasLabels(deps, view, spec));
  if (labelled.length === 0) {
    const known = online.map(({ node }) => node).join(", ");
    throw new AppError(
      "request.invalid",
      `spec.workerNodes.nodeSelector: no node that is online has these labels; online are: ${known}`,
      { errors: { "spec.workerNodes.nodeSelector": "fits no node that is online" } },
    );
  }
  const why = whyNoLevel(deps, spec);
  const reasons = labelled.map((view) => [view.node, why(view)] as const);
  if (reasons.some(([, reason]) => reason === undefined)) return;
  const text = reasons.map(([node, reason]) => `${node}: ${reason ?? ""}`).join("; ");
  throw invalidSpec("isolationLevel", kataRefused(text));
}

/** Those that can have workers of the level, else those that have not told yet, which are asked. */
function whyNoLevel(
  deps: NodesDeps,
  spec: Pick<VirtualClusterSpec, "isolationLevel" | "nodeSelector">,
): (view: NodeView) => string | undefined {
  if (spec.isolationLevel !== "L2") return () => undefined;
  const isAble = ({ facts }: NodeView): boolean => kataOf(facts?.capabilities) === "able";
  const areSome = deps.board
    .list()
    .some((view) => view.health === "online" && hasLabels(deps, view, spec) && isAble(view));
  return ({ facts }) => {
    const kata = kataOf(facts?.capabilities);
    if (typeof kata === "object") return kata.refusal;
    return kata === "able" || !areSome
      ? undefined
      : "it has not told yet whether it has Kata, and others have";
  };
}

function hasLabels(
  { records }: Pick<NodesDeps, "records">,
  { node }: NodeView,
  spec: Pick<VirtualClusterSpec, "nodeSelector">,
): boolean {
  return lackingLabel(records.collection(nodeRecords).get(node)?.value.labels ?? {}, spec) === undefined;
}
