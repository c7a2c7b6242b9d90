// Sleep and wake as operations: in the cluster's own queue, so that neither gets in between other work on it.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { NextWake } from "@gpve/domain/vcluster/power/next-wake.ts";
import type { ClusterRuns, ClusterSleep, KeptCluster, RunningClusters } from "@gpve/domain/vcluster/ports.ts";
import type { SleepMode } from "@gpve/domain/vcluster/power/sleep-policy.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import type { ClusterPhases } from "../cluster-phases.ts";
import type { AskUses } from "./ask-uses.ts";
import type { ClusterWays } from "./cluster-ways.ts";

export const SLEEP_CLUSTER = "vcsleep";
export const WAKE_CLUSTER = "vcwake";

export interface SleepArgs {
  readonly name: string;
  readonly mode: SleepMode;
  /** It goes to sleep by itself: not when somebody used it after that time. */
  readonly idleSince?: number;
}

export interface WakeArgs {
  readonly name: string;
  /** Until then it does not sleep by itself; milliseconds since the epoch. */
  readonly heldUntil?: number;
}

export interface PowerOperationDeps {
  readonly host: RunningClusters & ClusterRuns & ClusterSleep;
  readonly phases: ClusterPhases;
  readonly ways: ClusterWays;
  /** When it has to be awake again by itself; undefined = never. */
  readonly nextWake: (cluster: KeptCluster, signal: AbortSignal) => Promise<NextWake | undefined>;
  readonly uses: AskUses;
  /** Bytes that this machine can still give. */
  readonly availableMemory: () => number;
}

/** What a control plane takes when it has just begun. */
const START_BYTES = 300 * 2 ** 20;

type State = Record<string, never>;

export function powerOperations({
  host,
  phases,
  ways,
  nextWake,
  uses,
  availableMemory,
}: PowerOperationDeps): {
  readonly sleep: OperationDefinition<SleepArgs, State>;
  readonly wake: OperationDefinition<WakeArgs, State>;
} {
  const fallAsleep = async (cluster: KeptCluster, mode: SleepMode): Promise<string> => {
    if (mode === "warm") return host.freeze(cluster);
    await host.stop(cluster);
    await host.rest(cluster);
    return "its processes have ended";
  };
  /** Anybody may connect to a thousand that sleep: those that start do not take the memory of those that run. */
  let starting = 0;
  const start = async (
    cluster: KeptCluster,
    signal: AbortSignal,
    log: (line: string) => void,
    open?: () => Promise<void>,
  ): Promise<void> => {
    if (availableMemory() < (starting + 1) * START_BYTES)
      throw new AppError(
        "capacity.exceeded",
        `virtual cluster '${cluster.name}' is not woken: its node has too little memory left for its control plane`,
      );
    starting++;
    try {
      await host.start(cluster, signal, log, open);
    } finally {
      starting--;
    }
  };
  /** One whose controllers do not come sleeps on, so that whoever connects next has it tried again. */
  const startOpen = async (
    cluster: KeptCluster,
    open: () => Promise<void>,
    signal: AbortSignal,
    log: (line: string) => void,
  ): Promise<void> => {
    try {
      await start(cluster, signal, log, open);
    } catch (err) {
      const { asleep, wakeAt } = cluster;
      phases.save({ ...phases.require(cluster.name), ...given({ asleep, wakeAt }) });
      await ways.tell();
      throw err;
    }
  };
  /** Nobody who is connected comes in any more: what began since it was asked last counts too. */
  const seenUses = async (
    cluster: KeptCluster,
    signal: AbortSignal,
    warn: (line: string) => void,
  ): Promise<readonly string[]> => {
    try {
      return (await uses(cluster, signal)).map(({ what }) => what);
    } catch (err) {
      warn(`what else uses it cannot be found out: ${messageOf(err)}`);
      return ["what its policy says may keep it awake"];
    }
  };
  return {
    sleep: {
      type: SLEEP_CLUSTER,
      onCrash: "resume",
      steps: [
        {
          name: "sleep",
          run: async ({ args: { name, mode, idleSince }, log, warn, signal, clock }) => {
            const cluster = requireRunning(phases.require(name));
            if (cluster.asleep === mode || cluster.asleep === "cold") {
              log(`it is ${cluster.asleep} already`);
              return;
            }
            // From here on whoever connects waits, and has it woken when it sleeps.
            await ways.hold(name);
            try {
              const { lastAt } = ways.activity(name);
              const { heldUntil = 0 } = phases.require(name);
              const isUsed = idleSince !== undefined && (lastAt > idleSince || heldUntil > clock.now());
              const using = idleSince === undefined || isUsed ? [] : await seenUses(cluster, signal, warn);
              if (isUsed) log("somebody used it meanwhile: it stays awake");
              else if (using.length > 0) log(`it stays awake: ${using.join(", ")}`);
              else {
                // One that stands still already answers nobody.
                const next =
                  cluster.asleep === undefined
                    ? await nextWake(cluster, signal).catch((err: unknown) => {
                        warn(`what would wake it by itself cannot be found out: ${messageOf(err)}`);
                        return undefined;
                      })
                    : undefined;
                if (next !== undefined) log(`it wakes at ${new Date(next.at).toISOString()} for ${next.why}`);
                const { heldUntil: _over, ...kept } = phases.require(name);
                phases.save({ ...kept, asleep: mode, ...given({ wakeAt: next?.at }) });
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
          run: async ({ args: { name, heldUntil }, log, signal, clock }) => {
            const cluster = requireRunning(phases.require(name));
            const began = clock.monotonic();
            // Who waits is let in as soon as somebody answers him.
            const open = async (): Promise<void> => {
              const { asleep: was = "hot", wakeAt: _done, isNew: _new, ...awake } = phases.require(name);
              ways.woke(name, was, clock.monotonic() - began);
              phases.save({ ...awake, ...given({ heldUntil }) });
              await ways.tell();
              if (heldUntil !== undefined) log(`it is held awake until ${new Date(heldUntil).toISOString()}`);
              log(`awake after ${((clock.monotonic() - began) / 1000).toFixed(2)} s; it was ${was}`);
            };
            if (cluster.asleep === "warm" && host.isUp(cluster)) await host.thaw(cluster, signal);
            else if (cluster.asleep !== undefined || !host.isUp(cluster)) {
              // What is left of one that stood still and lost a part is no use.
              if (cluster.asleep === "warm") await host.stop(cluster);
              if (cluster.isNew !== true) {
                await startOpen(cluster, open, signal, log);
                return;
              }
              await start(cluster, signal, log);
              await host.furnish(cluster, signal);
            }
            await open();
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
