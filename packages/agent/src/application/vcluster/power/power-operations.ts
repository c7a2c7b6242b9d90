// Sleep and wake as operations: in the cluster's own queue, so that neither gets in between other work on it.
import { AppError } from "@gpve/contracts/errors.ts";
import type { ClusterHost, KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { SleepMode } from "@gpve/domain/vcluster/sleep-policy.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import type { ClusterPhases } from "../cluster-phases.ts";
import type { ClusterWays } from "./cluster-ways.ts";

export const SLEEP_CLUSTER = "vcsleep";
export const WAKE_CLUSTER = "vcwake";

export interface SleepArgs {
  readonly name: string;
  readonly mode: SleepMode;
  /** It goes to sleep by itself: not when somebody used it after that time. */
  readonly idleSince?: number;
}

export interface PowerOperationDeps {
  readonly host: ClusterHost;
  readonly phases: ClusterPhases;
  readonly ways: ClusterWays;
}

type State = Record<string, never>;

export function powerOperations({ host, phases, ways }: PowerOperationDeps): {
  readonly sleep: OperationDefinition<SleepArgs, State>;
  readonly wake: OperationDefinition<{ readonly name: string }, State>;
} {
  const fallAsleep = async (cluster: KeptCluster, mode: SleepMode): Promise<string> => {
    if (mode === "warm") return host.freeze(cluster);
    await host.stop(cluster);
    return "its processes have ended";
  };
  return {
    sleep: {
      type: SLEEP_CLUSTER,
      onCrash: "resume",
      steps: [
        {
          name: "sleep",
          run: async ({ args: { name, mode, idleSince }, log }) => {
            const cluster = requireRunning(phases.require(name));
            if (cluster.asleep === mode || cluster.asleep === "cold") {
              log(`it is ${cluster.asleep} already`);
              return;
            }
            // From here on whoever connects waits, and has it woken when it sleeps.
            await ways.hold(name);
            try {
              const { lastAt } = ways.activity(name);
              if (idleSince !== undefined && lastAt > idleSince)
                log("somebody used it meanwhile: it stays awake");
              else {
                phases.save({ ...phases.require(name), asleep: mode });
                log(await fallAsleep(cluster, mode));
              }
            } finally {
              ways.unhold(name);
            }
            await ways.tell();
          },
        },
      ],
    },
    wake: {
      type: WAKE_CLUSTER,
      onCrash: "resume",
      steps: [
        {
          name: "wake",
          run: async ({ args: { name }, log, signal, clock }) => {
            const cluster = requireRunning(phases.require(name));
            const began = clock.monotonic();
            if (cluster.asleep === "warm" && host.isUp(cluster)) await host.thaw(cluster, signal);
            else if (cluster.asleep !== undefined || !host.isUp(cluster)) {
              // What is left of one that stood still and lost a part is no use.
              if (cluster.asleep === "warm") await host.stop(cluster);
              await host.start(cluster, signal, log);
            }
            const { asleep: was = "hot", ...awake } = phases.require(name);
            ways.woke(name, was, clock.monotonic() - began);
            phases.save(awake);
            await ways.tell();
            log(`awake after ${((clock.monotonic() - began) / 1000).toFixed(2)} s; it was ${was}`);
          },
        },
      ],
    },
  };
}

function requireRunning(cluster: KeptCluster): KeptCluster {
  if (cluster.phase === "Running") return cluster;
  throw new AppError(
    "object.conflict",
    `virtual cluster '${cluster.name}' is ${cluster.phase}: only one that is Running sleeps and wakes`,
  );
}
