// A node as the scheduler sees it: from its record, what it reports, and what storages are meant for it.
import { given } from "@gpve/contracts/given.ts";
import { nodeResources } from "../node/node-resources.ts";
import type { NodeRecord } from "../node/record.ts";
import type { NodeView } from "../node/runtime.ts";
import { parseTaint } from "../node/taint.ts";
import {
  contentOf,
  isDisabled,
  isShared,
  servesNode,
  type StorageDefinition,
} from "../storage/definition.ts";
import type { NodeStorage, SchedulerNode } from "./model.ts";

export function schedulerNode(
  record: NodeRecord,
  view: NodeView | undefined,
  storages: readonly StorageDefinition[],
  inMaintenance = false,
): SchedulerNode {
  const { facts, report } = view ?? {};
  const allocatable = nodeResources(view, [])?.allocatable;
  const away = whyAway(view);
  const flags = facts?.qemu?.cpuFlags;
  return {
    name: record.name,
    ...given({ away }),
    unschedulable: record.unschedulable === true,
    ...(inMaintenance ? { inMaintenance } : {}),
    labels: record.labels,
    taints: record.taints.map(parseTaint),
    allocatable: { cpu: allocatable?.cpu ?? 0, memory: allocatable?.memory ?? 0 },
    cpus: facts?.cpu.cpus ?? 0,
    gpus: (facts?.gpus ?? []).map(({ model }) => model),
    storages: Object.fromEntries(
      storages.flatMap((definition): (readonly [string, NodeStorage])[] => {
        const found = report?.storages.find(({ storage }) => storage === definition.storage);
        if (found?.active !== true || isDisabled(definition) || !servesNode(definition, record.name))
          return [];
        const content = [...contentOf(definition)];
        const shared = isShared(definition) ? { shared: true as const } : {};
        return [[definition.storage, { availBytes: found.availBytes, ...shared, content }]];
      }),
    ),
    bridges: facts?.bridges ?? [],
    ...(flags === undefined ? {} : { cpuFlags: facts?.accelerator === "kvm" ? flags.kvm : flags.tcg }),
    ...given({ architecture: facts?.kernel.machine }),
    numa: (facts?.numa ?? []).map(({ cpus, memoryBytes }) => ({ cpus, memory: memoryBytes })),
  };
}

/** Whether what is known of such nodes still holds: only room on storages has changed. */
export function isSameKind(before: SchedulerNode, after: SchedulerNode): boolean {
  return kindOf(before) === kindOf(after);
}

function kindOf(node: SchedulerNode): string {
  const storages = Object.entries(node.storages).map(([name, { content }]) => [name, content]);
  return JSON.stringify({ ...node, storages });
}

function whyAway(view: NodeView | undefined): string | undefined {
  if (view === undefined || view.health === "unknown") return "it has not reported yet";
  if (view.health === "offline")
    return "its agent does not report: look whether the machine and gpve-agent run";
  return view.facts === undefined ? "it has not said yet what it has" : undefined;
}
