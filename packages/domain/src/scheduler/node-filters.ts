// Filters that look at nodes alone: their answers are kept for all requests of a shape.
import { parseLabelSelector } from "@gpve/contracts/v1/selector.ts";
import { formatTaint, type Taint } from "../node/taint.ts";
import { selects } from "./label-buckets.ts";
import { labelOf } from "./topology.ts";
import { HOSTNAME_LABEL, type SchedulerNode, type Toleration } from "./model.ts";
import { nodeAt, type Filter, type PreparedFilter, type Question } from "./plugin.ts";
import { roomText, listText } from "./words.ts";

export const nodeFilters: readonly Filter[] = [
  {
    name: "NodeReady",
    always: true,
    shape: () => "",
    prepare: (question) => byReason(question, (node) => node.away),
  },
  {
    name: "NodeUnschedulable",
    shape: () => "",
    prepare: (question) =>
      byReason(question, ({ name, unschedulable, inMaintenance }) => {
        if (inMaintenance === true) return `it is in maintenance: gpvectl ha maintenance off ${name}`;
        return unschedulable ? `it is cordoned: gpvectl node uncordon ${name}` : undefined;
      }),
  },
  {
    name: "NodeAffinity",
    shape: ({ request }) => request.rules.nodeAffinity?.required ?? [],
    standsFor: ({ request }) => (request.rules.nodeAffinity?.required ?? []).length > 0,
    prepare: (question) => {
      const texts = question.request.rules.nodeAffinity?.required ?? [];
      if (texts.length === 0) return undefined;
      const selectors = texts.map(parseLabelSelector);
      return byReason(question, (node) =>
        selectors.some((selector) => selects(selector, { ...node.labels, [HOSTNAME_LABEL]: node.name }))
          ? undefined
          : `its labels do not match ${texts.map((text) => `'${text}'`).join(" or ")}: label the node, or ask for less`,
      );
    },
  },
  {
    name: "TaintToleration",
    shape: ({ request }) => request.rules.tolerations ?? [],
    prepare: (question) => {
      const tolerations = question.request.rules.tolerations ?? [];
      return byReason(question, ({ taints }) => {
        const taint = taints.find((each) => each.effect === "NoSchedule" && !tolerates(tolerations, each));
        return taint === undefined
          ? undefined
          : `its taint ${formatTaint(taint)} is not tolerated: add a toleration, or take the taint away`;
      });
    },
  },
  {
    name: "StorageReachable",
    always: true,
    shape: ({ request: { needs } }) => [Object.keys(needs.storages ?? {}).toSorted(), needs.content],
    prepare: (question) => {
      const { storages = {}, content } = question.request.needs;
      const names = Object.keys(storages);
      if (names.length === 0) return undefined;
      return byReason(question, (node) => {
        const missing = names.filter((name) => node.storages[name] === undefined);
        if (missing.length > 0) return `storage ${listText(missing)} is not there, or not active`;
        const wrong = names.find((name) => {
          const found = node.storages[name]?.content ?? [];
          return content !== undefined && (storages[name] ?? 0) > 0 && !found.includes(content);
        });
        return wrong === undefined ? undefined : `storage ${wrong} takes no ${content ?? ""}`;
      });
    },
  },
  {
    name: "BridgeReachable",
    always: true,
    shape: ({ request }) => request.needs.bridges ?? [],
    prepare: (question) => {
      const { bridges = [] } = question.request.needs;
      if (bridges.length === 0) return undefined;
      return byReason(question, (node) => {
        const missing = bridges.filter((bridge) => !node.bridges.includes(bridge));
        return missing.length === 0 ? undefined : `it has no bridge ${listText(missing)}`;
      });
    },
  },
  {
    name: "CpuCompatible",
    always: true,
    shape: ({ request: { needs } }) => [needs.architecture, needs.cpuFlags ?? []],
    prepare: (question) => {
      const { cpuFlags = [], cpuModel, architecture } = question.request.needs;
      if (cpuFlags.length === 0 && architecture === undefined) return undefined;
      return byReason(question, (node) => {
        if (
          architecture !== undefined &&
          node.architecture !== undefined &&
          architecture !== node.architecture
        )
          return `it is ${node.architecture}, not ${architecture}`;
        const { cpuFlags: has } = node;
        // What a node has not said cannot be held against it: it answers itself when it is asked.
        const missing = has === undefined ? [] : cpuFlags.filter((flag) => !has.includes(flag));
        if (missing.length === 0) return undefined;
        return `its CPU has no ${listText(missing, 6)}${cpuModel === undefined ? "" : `, which CPU type ${cpuModel} promises`}`;
      });
    },
  },
  {
    name: "NumaFit",
    always: true,
    shape: ({ request: { needs, demand } }) =>
      needs.numaCells === undefined ? "" : [needs.numaCells, demand.cpu, demand.memory],
    prepare: (question) => {
      const { demand, needs } = question.request;
      const cells = needs.numaCells ?? 0;
      if (cells === 0) return undefined;
      const [cpu, memory] = [demand.cpu / cells, demand.memory / cells];
      return byReason(question, ({ numa }) =>
        numa.length === 0 || numa.some((cell) => cell.cpus >= cpu && cell.memory >= memory)
          ? undefined
          : `none of its NUMA cells has ${cpu} CPUs and ${roomText(memory)}, which one of ${cells} cells of the guest needs`,
      );
    },
  },
];

export function tolerates(tolerations: readonly Toleration[], taint: Taint): boolean {
  return tolerations.some(({ key, operator, value, effect }) => {
    if (effect !== undefined && effect !== taint.effect) return false;
    if (key !== undefined && key !== taint.key) return false;
    const exists = operator === undefined ? value === undefined : operator === "Exists";
    return exists || (taint.value ?? "") === (value ?? "");
  });
}

/** Which topology labels a node lacks is a reason of its own. */
export function missingLabel(node: SchedulerNode, key: string): string | undefined {
  return labelOf(node, key) === undefined ? `it has no label ${key}` : undefined;
}

function byReason(
  question: Question,
  reason: (node: SchedulerNode) => string | undefined,
): PreparedFilter | undefined {
  return {
    refuses: (at) => reason(nodeAt(question, at)) !== undefined,
    why: (at) => reason(nodeAt(question, at)) ?? "",
  };
}
