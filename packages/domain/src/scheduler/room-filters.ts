// Filters that look at what is left of a node: CPU, memory, room on storages, GPUs.
import type { PlacementRequest } from "./model.ts";
import type { Filter } from "./plugin.ts";
import { nodeAt } from "./plugin.ts";
import type { ClusterState } from "./cluster-state.ts";
import { roomText, round } from "./words.ts";

/** Sums of fractions are not exact. */
const SLACK = 1e-9;

export const roomFilters: readonly Filter[] = [
  {
    name: "NodeResourcesFit",
    prepare: (question) => {
      const { state, request } = question;
      const { cpu, memory } = request.demand;
      const { cpuUsed, memoryUsed, cpu: cpus, memory: bytes } = state;
      // Who asks for nothing fits beside those that have more than there is.
      const lacksCpu = (at: number): boolean => cpu > 0 && (cpuUsed[at] ?? 0) + cpu > (cpus[at] ?? 0) + SLACK;
      const lacksMemory = (at: number): boolean =>
        memory > 0 && (memoryUsed[at] ?? 0) + memory > (bytes[at] ?? 0);
      return {
        refuses: (at) => lacksCpu(at) || lacksMemory(at),
        sift: (nodes, count) => {
          let left = 0;
          for (let index = 0; index < count; index++) {
            const at = nodes[index] ?? 0;
            if (!lacksCpu(at) && !lacksMemory(at)) nodes[left++] = at;
          }
          return left;
        },
        why: (at) => {
          const freeCpu = Math.max(0, (cpus[at] ?? 0) - (cpuUsed[at] ?? 0));
          const freeMemory = Math.max(0, (bytes[at] ?? 0) - (memoryUsed[at] ?? 0));
          const texts = [
            ...(lacksCpu(at) ? [`${round(freeCpu)} of ${cpu} CPUs are free`] : []),
            ...(lacksMemory(at) ? [`${roomText(freeMemory)} of ${roomText(memory)} memory are free`] : []),
          ];
          return `${texts.join(", ")}: stop or move guests, or allow more overcommit`;
        },
      };
    },
  },
  {
    name: "EnoughCpus",
    always: true,
    shape: ({ request }) => ownCpus(request),
    prepare: (question) => {
      const cpu = ownCpus(question.request);
      return {
        refuses: (at) => nodeAt(question, at).cpus < cpu,
        why: (at) => `it has ${nodeAt(question, at).cpus} CPUs, and one guest cannot have ${cpu}`,
      };
    },
  },
  {
    name: "StorageRoom",
    prepare: (question) => {
      const { state, request } = question;
      const wanted = Object.entries(request.needs.storages ?? {}).filter(([, bytes]) => bytes > 0);
      if (wanted.length === 0) return undefined;
      const rooms = wanted.map(([name, bytes]) => ({ name, bytes, room: state.storageRoom(name) }));
      // Where it is not to be reached, that is said by another filter.
      const short = (at: number) =>
        rooms.find(({ bytes, room }) => (room[at] ?? -1) >= 0 && (room[at] ?? 0) < bytes);
      return {
        refuses: (at) => short(at) !== undefined,
        sift: (nodes, count) => {
          let left = count;
          for (const { bytes, room } of rooms) {
            const among = left;
            left = 0;
            for (let index = 0; index < among; index++) {
              const at = nodes[index] ?? 0;
              const free = room[at] ?? -1;
              if (free < 0 || free >= bytes) nodes[left++] = at;
            }
          }
          return left;
        },
        why: (at) => {
          const found = short(at);
          return `storage ${found?.name ?? ""} has ${roomText(found?.room[at] ?? 0)} left, of ${roomText(found?.bytes ?? 0)}`;
        },
      };
    },
  },
  {
    name: "GpuFit",
    always: true,
    prepare: (question) => {
      const { state, request } = question;
      const wanted = request.demand.gpus ?? 0;
      const { gpuType } = request.rules;
      if (wanted === 0) return undefined;
      const has = gpuColumn(state, gpuType);
      const free = (at: number): number => {
        const all = nodeAt(question, at).gpus.length - (state.gpusUsed[at] ?? 0);
        if (gpuType === undefined || (has[at] ?? 0) === 0) return Math.min(all, has[at] ?? 0);
        const taken = state
          .guestsOn(at)
          .filter(({ counts, request: { rules } }) => counts && sameType(rules.gpuType, gpuType))
          .reduce((sum, guest) => sum + (guest.request.demand.gpus ?? 0), 0);
        return Math.min(all, (has[at] ?? 0) - taken);
      };
      const what = gpuType === undefined ? "GPUs" : `GPUs of type ${gpuType}`;
      return {
        refuses: (at) => free(at) < wanted,
        why: (at) => `${Math.max(0, free(at))} of ${wanted} ${what} are free`,
      };
    },
  },
];

/** Workers of a virtual cluster are several, each bound by what it may use: more than the node has is a bound that none reaches. */
function ownCpus({ kind, demand }: PlacementRequest): number {
  return kind === "vc" ? 0 : demand.cpu;
}

/** GPUs of each node whose model the type names, as "A100" does "NVIDIA A100 80GB". */
export function gpuColumn(state: ClusterState, type: string | undefined): Uint16Array {
  const wanted = type?.toLowerCase() ?? "";
  return state.memo(`gpus ${wanted}`, () =>
    Uint16Array.from(
      state.nodes,
      ({ gpus }) => gpus.filter((model) => model.toLowerCase().includes(wanted)).length,
    ),
  );
}

function sameType(one: string | undefined, other: string): boolean {
  return one?.toLowerCase() === other.toLowerCase();
}
