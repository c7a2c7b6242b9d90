// Scores: how good a node that can take a request is, 0 to 100. Nodes are compared by what is defined on them, running or
// not, so that guests which do not run yet are spread too.
import { parseLabelSelector } from "@gpve/contracts/v1/selector.ts";
import type { PlaceCounts } from "./cluster-state.ts";
import { selects } from "./label-buckets.ts";
import { distances, nearOf, spreadOf } from "./guest-filters.ts";
import { HOSTNAME_LABEL, TOPOLOGY_PREFIX, type GuestTerm } from "./model.ts";
import { tolerates } from "./node-filters.ts";
import { eachNode, nodeAt, type PreparedScore, type Question, type Score } from "./plugin.ts";
import { gpuColumn } from "./room-filters.ts";

const DEFAULT_THRESHOLD = 80;
const ZONE = `${TOPOLOGY_PREFIX}zone`;
/** Parts of virtual clusters. */
const CLUSTERS = "gpve.io/kind=vc";

export const scores: readonly Score[] = [
  {
    name: "LeastAllocated",
    prepare: (question) => {
      const { cpus, bytes, cpuDefined, memoryDefined, cpu, memory } = fillingOf(question);
      return {
        fill: (nodes, parts) => {
          for (let index = 0; index < nodes.length; index++) {
            const at = nodes[index] ?? 0;
            const ofCpu = ((cpuDefined[at] ?? 0) + cpu) / (cpus[at] || 1);
            const ofMemory = ((memoryDefined[at] ?? 0) + memory) / (bytes[at] || 1);
            parts[index] = (room(ofCpu) + room(ofMemory)) / 2;
          }
        },
      };
    },
  },
  {
    name: "MostAllocated",
    prepare: (question) => {
      const threshold = (question.request.rules.utilizationThreshold ?? DEFAULT_THRESHOLD) / 100;
      const { cpus, bytes, cpuDefined, memoryDefined, cpu, memory } = fillingOf(question);
      return {
        fill: (nodes, parts) => {
          for (let index = 0; index < nodes.length; index++) {
            const at = nodes[index] ?? 0;
            const ofCpu = ((cpuDefined[at] ?? 0) + cpu) / (cpus[at] || 1);
            const ofMemory = ((memoryDefined[at] ?? 0) + memory) / (bytes[at] || 1);
            const most = Math.max(ofCpu, ofMemory);
            // What would be fuller than the threshold comes after all that would not.
            parts[index] =
              most > threshold + 1e-9 ? (20 * threshold) / most : 20 + (40 * (ofCpu + ofMemory)) / threshold;
          }
        },
      };
    },
  },
  {
    name: "BalancedAllocation",
    prepare: (question) => {
      const { cpus, bytes, cpuDefined, memoryDefined, cpu, memory } = fillingOf(question);
      return {
        fill: (nodes, parts) => {
          for (let index = 0; index < nodes.length; index++) {
            const at = nodes[index] ?? 0;
            const ofCpu = ((cpuDefined[at] ?? 0) + cpu) / (cpus[at] || 1);
            const ofMemory = ((memoryDefined[at] ?? 0) + memory) / (bytes[at] || 1);
            parts[index] = 100 * (1 - Math.min(1, Math.abs(ofCpu - ofMemory)));
          }
        },
      };
    },
  },
  {
    name: "NodeAffinity",
    prepare: (question) => {
      const preferred = question.request.rules.nodeAffinity?.preferred ?? [];
      if (preferred.length === 0) return undefined;
      const terms = preferred.map(({ nodes, weight }) => ({ selector: parseLabelSelector(nodes), weight }));
      const all = terms.reduce((sum, { weight }) => sum + weight, 0);
      return {
        fill: eachNode((at) => {
          const { labels, name } = nodeAt(question, at);
          const known = { ...labels, [HOSTNAME_LABEL]: name };
          const found = terms.filter(({ selector }) => selects(selector, known));
          return (100 * found.reduce((sum, { weight }) => sum + weight, 0)) / all;
        }),
      };
    },
  },
  {
    name: "GuestAffinity",
    prepare: ({ state, request: { rules } }) => {
      const rows = [
        ...weighted(rules.affinity?.preferred, -1),
        ...weighted(rules.antiAffinity?.preferred, 1),
      ].map(({ term, weight }) => ({ found: state.counts(term.guests, term.topologyKey), weight }));
      return byCounts(rows);
    },
  },
  {
    name: "TaintToleration",
    prepare: (question) => {
      const tolerations = question.request.rules.tolerations ?? [];
      const counts = question.state.memo(`taints ${JSON.stringify(tolerations)}`, () => {
        const found = question.state.nodes.map(
          ({ taints }) =>
            taints.filter((taint) => taint.effect === "PreferNoSchedule" && !tolerates(tolerations, taint))
              .length,
        );
        return found.every((count) => count === 0) ? [] : found;
      });
      if (counts.length === 0) return undefined;
      return { lowerIsBetter: true, fill: eachNode((at) => counts[at] ?? 0) };
    },
  },
  { name: "TopologySpread", prepare: topologySpread },
  {
    name: "ClusterSpread",
    prepare: ({ state, request }) => {
      if (request.kind !== "vc") return undefined;
      const { topology, counts } = state.counts(CLUSTERS);
      // One more matters less where there are many: then how full nodes are says more.
      return { fill: eachNode((at) => 100 / (1 + (counts[topology.placeOf[at] ?? -1] ?? 0))) };
    },
  },
  {
    name: "GpuBestFit",
    prepare: ({ state, request }) => {
      if (state.memo("no gpus", () => state.nodes.every((node) => node.gpus.length === 0))) return undefined;
      const has = gpuColumn(state, request.rules.gpuType);
      const { gpusUsed } = state;
      // What needs none leaves them to others; what needs some leaves as few as it can.
      return {
        lowerIsBetter: true,
        fill: (nodes, parts) => {
          for (let index = 0; index < nodes.length; index++) {
            const at = nodes[index] ?? 0;
            parts[index] = Math.max(0, (has[at] ?? 0) - (gpusUsed[at] ?? 0));
          }
        },
      };
    },
  },
  {
    name: "Latency",
    prepare: ({ state, request }) => {
      const { means, total } = distances(state, nearOf(request));
      return total === 0 ? undefined : { lowerIsBetter: true, fill: means };
    },
  },
  {
    name: "NumaBestFit",
    prepare: (question) => {
      const { cpu, memory } = question.request.demand;
      if (question.state.memo("numa", () => question.state.nodes.every(({ numa }) => numa.length < 2)))
        return undefined;
      return {
        fill: eachNode((at) => {
          const { numa } = nodeAt(question, at);
          if (numa.length < 2) return 100;
          return numa.some((cell) => cell.cpus >= cpu && cell.memory >= memory) ? 100 : 0;
        }),
      };
    },
  },
];

function topologySpread(question: Question): PreparedScore | undefined {
  const { state, request, strategy } = question;
  const { rules } = request;
  const soft = (rules.spread ?? []).map((rule) => ({ term: rule as Partial<GuestTerm>, weight: 1 }));
  const zones = state.topology(ZONE).places.length;
  const own =
    strategy === "ha-spread"
      ? [
          ...(rules.topologyKey === undefined
            ? zones > 1
              ? [{ term: { topologyKey: ZONE }, weight: 4 }]
              : []
            : [{ term: { topologyKey: rules.topologyKey }, weight: 4 }]),
          { term: {}, weight: 1 },
        ]
      : [];
  const rows = [...soft, ...own].map(({ term, weight }): CountRow => {
    const found = state.counts(spreadOf(request, term), term.topologyKey);
    if (term.topologyKey === undefined) return { found, weight };
    // In no place at all it adds to none of them: it comes after all that are in one.
    return { found, weight, elsewhere: 1 + found.counts.reduce((most, count) => Math.max(most, count), 0) };
  });
  return byCounts(rows);
}

function weighted(
  terms: readonly (GuestTerm & { readonly weight: number })[] | undefined,
  sign: 1 | -1,
): readonly { readonly term: GuestTerm; readonly weight: number }[] {
  return (terms ?? []).map((term) => ({ term, weight: sign * term.weight }));
}

interface CountRow {
  readonly found: PlaceCounts;
  readonly weight: number;
  /** What a node counts as that lacks the label. */
  readonly elsewhere?: number;
}

/** By how many guests of some kind are in the same place. */
function byCounts(rows: readonly CountRow[]): PreparedScore | undefined {
  if (rows.length === 0) return undefined;
  return {
    lowerIsBetter: true,
    fill: (nodes, parts) => {
      parts.fill(0);
      for (const { found, weight, elsewhere = 0 } of rows) {
        const { counts } = found;
        const { placeOf } = found.topology;
        for (let index = 0; index < nodes.length; index++) {
          const place = placeOf[nodes[index] ?? 0] ?? -1;
          const count = place < 0 ? elsewhere : (counts[place] ?? 0);
          parts[index] = (parts[index] ?? 0) + weight * count;
        }
      }
    },
  };
}

interface Filling {
  readonly cpu: number;
  readonly memory: number;
  readonly cpus: Float64Array;
  readonly bytes: Float64Array;
  readonly cpuDefined: Float64Array;
  readonly memoryDefined: Float64Array;
}

/** What says how full a node would be, in CPUs and in memory. */
function fillingOf({ state, request: { demand } }: Question): Filling {
  const { cpuDefined, memoryDefined, cpu: cpus, memory: bytes } = state;
  return { cpu: demand.cpu, memory: demand.memory, cpus, bytes, cpuDefined, memoryDefined };
}

/** 100 where all is free, 10 where all is given away, less where more is. */
function room(filled: number): number {
  return filled <= 1 ? 100 - 90 * filled : 10 / filled;
}
