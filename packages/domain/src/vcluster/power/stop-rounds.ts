// In which order the processes of all virtual clusters of a node end when the node is switched off: whoever needs another ends
// before it. Processes are named CLUSTER.PART and CLUSTER.wSLOT-PART; those of the node for all clusters have no dot.

const WORKER_PART = /^(.+\.w\d+)-(.+)$/;

/** First the kubelets, which would start again what ends; an API server ends only while its store is there. */
const ROUNDS: readonly ((part: string, isWorkers: boolean) => boolean)[] = [
  (part, isWorkers) => isWorkers && part === "kubelet",
  (_, isWorkers) => isWorkers,
  (part) => part === "kube-scheduler" || part === "kube-controller-manager",
  (part) => part !== "" && part !== "etcd",
  (part) => part === "etcd",
];

/** Those of one round end at the same time. */
export function stopRounds(ids: readonly string[]): readonly (readonly string[])[] {
  const rounds: string[][] = [...ROUNDS, undefined].map(() => []);
  for (const id of ids) {
    const [, , workersPart] = WORKER_PART.exec(id) ?? [];
    const part = workersPart ?? id.split(".")[1] ?? "";
    const at = ROUNDS.findIndex((isOf) => isOf(part, workersPart !== undefined));
    rounds.at(at)?.push(id);
  }
  return rounds.filter((round) => round.length > 0);
}

/** The worker that a process belongs to, as its cgroup is named. */
export function workerOf(id: string): string | undefined {
  return WORKER_PART.exec(id)?.[1];
}
