// In which phases a cluster can be started, stopped, woken and tried again. Refused before a task begins where its phase is none that
// passes by itself, and by the task where it has become another one until its turn comes.
import { AppError } from "@gpve/contracts/errors.ts";
import { calledOf, type KeptCluster } from "@gpve/domain/vcluster/ports.ts";

type Phase = KeptCluster["phase"];

export interface Allowed {
  readonly phases: readonly Phase[];
  readonly done: string;
}

export const ALLOWED = {
  start: { phases: ["Stopped", "Running"], done: "started" },
  stop: { phases: ["Running", "Stopping", "Stopped"], done: "stopped" },
  wake: { phases: ["Running"], done: "woken" },
  retry: { phases: ["Failed", "Pending", "Migrating"], done: "tried again" },
} as const satisfies Readonly<Record<string, Allowed>>;

/** What to do where one stays as it is until somebody does something. */
const INSTEAD: Partial<Readonly<Record<Phase, (name: string) => string>>> = {
  Failed: (name) => `try again what failed (gpvectl vc retry ${name}), or delete it`,
  Stopped: (name) => `start it (gpvectl vc start ${name})`,
  Running: () => "nothing of it has failed",
};

/** Who asks its API, which answers also while workers come or go. */
export function requireAnswering(cluster: KeptCluster): KeptCluster {
  return cluster.phase === "Scaling" ? cluster : requireRunning(cluster);
}

/** Who changes it. */
export function requireRunning(cluster: KeptCluster): KeptCluster {
  const { phase } = cluster;
  if (phase === "Running") return cluster;
  const name = calledOf(cluster);
  const instead = INSTEAD[phase]?.(name) ?? "its API answers only while it is Running";
  throw new AppError("object.conflict", `virtual cluster '${name}' is ${phase}: ${instead}`);
}

export function requirePhase(cluster: KeptCluster, { phases, done }: Allowed): void {
  const { phase } = cluster;
  if (phases.includes(phase)) return;
  const name = calledOf(cluster);
  const instead = INSTEAD[phase]?.(name);
  throw new AppError(
    "object.conflict",
    `virtual cluster '${name}' is ${phase} and cannot be ${done}${instead === undefined ? "" : `: ${instead}`}`,
  );
}

/** Before there is a task. What is on its way may be something else when it is its turn, and several nodes are told one by one. */
export function requireNow(cluster: KeptCluster, allowed: Allowed): void {
  if (INSTEAD[cluster.phase] !== undefined && cluster.overlay === undefined) requirePhase(cluster, allowed);
}
