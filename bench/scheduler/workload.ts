// The cluster and the requests that are measured: the same for every strategy and for the baseline.
import type { PlacementRequest, SchedulerNode, Strategy } from "../../packages/domain/src/scheduler/model.ts";

const GiB = 1024 ** 3;
const ZONES = 4;
const NODES_PER_RACK = 25;

/** 0 to 1, the same every time. */
export function drawer(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Two sizes of machines in racks and zones; every tenth has GPUs. */
export function clusterOf(count: number): readonly SchedulerNode[] {
  const draw = drawer(count);
  return Array.from({ length: count }, (_, at) => {
    const cpus = draw() < 0.5 ? 64 : 128;
    const rack = Math.floor(at / NODES_PER_RACK);
    return {
      name: `n${String(at).padStart(5, "0")}`,
      unschedulable: false,
      labels: {
        disk: at % 2 === 0 ? "ssd" : "hdd",
        "topology.gpve.io/rack": `r${rack}`,
        "topology.gpve.io/zone": `z${rack % ZONES}`,
      },
      taints: at % 20 === 0 ? [{ key: "special", effect: "NoSchedule" as const }] : [],
      allocatable: { cpu: cpus * 2, memory: cpus * 4 * GiB },
      cpus,
      gpus: at % 10 === 0 ? Array.from({ length: 4 }, () => "NVIDIA A100") : [],
      storages: { shared: { availBytes: 1024 ** 5, content: ["images"] } },
      bridges: ["vmbr0"],
      numa: [],
    };
  });
}

/** Applications of six guests; a third must be apart, a fifth needs SSDs, for gpu-aware a tenth needs a GPU. */
export function requestsOf(count: number, strategy: Strategy): readonly PlacementRequest[] {
  const draw = drawer(7);
  return Array.from({ length: count }, (_, at) => {
    const app = `app${Math.floor(at / 6)}`;
    const family = Math.floor(at / 6);
    const size = 2 ** Math.floor(draw() * 4);
    const needsGpu = strategy === "gpu-aware" && draw() < 0.1;
    return {
      id: `vm/${100 + at}`,
      kind: "vm" as const,
      demand: { cpu: size, memory: size * (draw() < 0.5 ? 2 : 4) * GiB, ...(needsGpu ? { gpus: 1 } : {}) },
      needs: { storages: { shared: 32 * GiB }, content: "images" as const, bridges: ["vmbr0"] },
      labels: { app, "gpve.io/tenant": `t${family % 50}` },
      rules: {
        strategy,
        ...(family % 3 === 0 ? { antiAffinity: { required: [{ guests: `app=${app}` }] } } : {}),
        ...(family % 5 === 1 ? { nodeAffinity: { required: ["disk=ssd"] } } : {}),
        ...(needsGpu ? { gpuType: "A100", tolerations: [{ key: "special" }] } : {}),
        ...(strategy === "latency" ? { near: `app=${app}` } : {}),
      },
    };
  });
}
