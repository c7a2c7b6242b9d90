// Puts clusters to sleep that nobody uses, and wakes those that somebody wants.
import { randomUUID } from "node:crypto";
import { AppError } from "@gpve/contracts/errors.ts";
import type { ClusterFront } from "@gpve/domain/vcluster/cluster-front.ts";
import { given } from "@gpve/contracts/given.ts";
import type { ZoneOffset } from "@gpve/domain/calendar/time-zone.ts";
import { nextScheduled } from "@gpve/domain/vcluster/power/next-wake.ts";
import { isBranch } from "@gpve/domain/vcluster/overlay.ts";
import type { KeptCluster, KeptClusters } from "@gpve/domain/vcluster/ports.ts";
import type { AwakeReason } from "@gpve/domain/vcluster/vcluster-runtime.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { type AskUses, policyOf } from "./ask-uses.ts";
import { awakeReason, isAwake, isHeld, mayFallAsleep } from "./awake-reason.ts";
import { ClusterUses } from "./cluster-uses.ts";
import type { ClusterWays } from "./cluster-ways.ts";
import { SLEEP_CLUSTER, type SleepArgs, WAKE_CLUSTER } from "./power-operations.ts";

export interface ClusterPowerDeps {
  readonly host: KeptClusters;
  readonly front: ClusterFront;
  readonly ways: ClusterWays;
  readonly engine: Pick<OperationEngine, "submit" | "wait">;
  readonly clock: Clock;
  readonly log: Logger;
  /** Of this node, in which policies say when. */
  readonly zone: () => ZoneOffset;
  readonly uses: AskUses;
}

const LOOK_MS = 1_000;
/** A start takes some seconds, and some jobs are not begun late. */
const EARLY_MS = 5_000;
/** Controllers have to come to the job for which it was woken. */
const FOR_JOBS_MS = 60_000;
/** One that could not be woken is not tried every second. */
const AGAIN_MS = 60_000;

export class ClusterPower {
  readonly #deps: ClusterPowerDeps;
  readonly #uses: ClusterUses;
  readonly #waking = new Map<string, Promise<void>>();
  readonly #falling = new Set<string>();
  /** Since when each is awake, as far as we have seen; who just woke has not been idle yet. */
  readonly #awakeSince = new Map<string, number>();
  /** When each goes to sleep by its policy next, by what its policy says. */
  readonly #sleepsAt = new Map<string, { readonly event: string; readonly at: number }>();
  readonly #wokenAt = new Map<string, number>();
  #stopLooking = (): void => undefined;

  constructor(deps: ClusterPowerDeps) {
    this.#deps = deps;
    this.#uses = new ClusterUses({ ask: deps.uses, clock: deps.clock });
    deps.front.onWake((name) => {
      const woken = this.awake(name).catch((err: unknown) => {
        deps.front.refuse(name);
        throw err;
      });
      background(deps.log, `waking virtual cluster ${name}`, woken);
    });
  }

  start(): void {
    const look = (): void => {
      this.#look();
      this.#stopLooking = this.#deps.clock.after(LOOK_MS, look);
    };
    look();
  }

  close(): void {
    this.#stopLooking();
    this.#uses.close();
  }

  /** What keeps one awake that sleeps by itself; undefined = it does not, or is not awake. */
  keptAwake(cluster: KeptCluster): AwakeReason | undefined {
    const { name } = cluster;
    const since = this.#awakeSince.get(name);
    if (since === undefined || !mayFallAsleep(cluster)) return undefined;
    return awakeReason(cluster, {
      now: this.#deps.clock.now(),
      since,
      activity: this.#deps.ways.activity(name),
      uses: this.#uses.what(name),
    });
  }

  /** Resolves when it is awake; a thousand who ask have it woken once. */
  awake(name: string): Promise<void> {
    const { host, ways } = this.#deps;
    const cluster = host.get(name);
    const isAwake = cluster?.phase === "Running" && cluster.asleep === undefined;
    if (isAwake && !this.#falling.has(name) && !ways.isHeld(name)) return Promise.resolve();
    const known = this.#waking.get(name);
    if (known !== undefined) return known;
    const waking = this.#run(WAKE_CLUSTER, { name }).finally(() => {
      this.#waking.delete(name);
      this.#awakeSince.set(name, this.#deps.clock.now());
    });
    this.#waking.set(name, waking);
    return waking;
  }

  #look(): void {
    const { host, log } = this.#deps;
    for (const cluster of host.list()) {
      this.#wakeInTime(cluster);
      const isTime = this.#isTimeToSleep(cluster);
      const idleSince = this.#idleSince(cluster);
      if (idleSince === undefined && !isTime) continue;
      const { name } = cluster;
      const { mode } = policyOf(cluster);
      if (mode === "none") continue;
      this.#falling.add(name);
      const args = { name, mode, ...(isTime ? {} : given({ idleSince })) };
      const done = this.#run(SLEEP_CLUSTER, args).finally(() => {
        this.#falling.delete(name);
        this.#awakeSince.delete(name);
      });
      background(log, `putting virtual cluster ${name} to sleep`, done);
    }
  }

  /** A job of it is due, or its policy says so. */
  #wakeInTime({ name, phase, asleep, wakeAt, isWanted }: KeptCluster): void {
    const { clock, log } = this.#deps;
    const now = clock.now();
    if (wakeAt === undefined || asleep === undefined || phase !== "Running" || !isWanted) return;
    if (now < wakeAt - EARLY_MS || now - (this.#wokenAt.get(name) ?? -AGAIN_MS) < AGAIN_MS) return;
    this.#wokenAt.set(name, now);
    const woken = this.awake(name).then(() => this.#awakeSince.set(name, clock.now() + FOR_JOBS_MS));
    background(log, `waking virtual cluster ${name}`, woken);
  }

  /** By its policy. What an agent that was not there missed, it does not make up for, nor what came while it was held. */
  #isTimeToSleep(cluster: KeptCluster): boolean {
    const { name, spec } = cluster;
    const { clock, zone } = this.#deps;
    const event = spec.sleep?.sleepAt;
    const known = this.#sleepsAt.get(name);
    const now = clock.now();
    if (event === undefined) {
      this.#sleepsAt.delete(name);
      return false;
    }
    const isDue = known?.event === event && now >= known.at;
    if (known?.event !== event || isDue) {
      const at = nextScheduled(event, now, zone()) ?? Number.POSITIVE_INFINITY;
      this.#sleepsAt.set(name, { event, at });
    }
    return (
      isDue &&
      isAwake(cluster) &&
      !isHeld(cluster, now) &&
      !this.#falling.has(name) &&
      !this.#waking.has(name)
    );
  }

  /** undefined = it is not to sleep now. */
  #idleSince(cluster: KeptCluster): number | undefined {
    const { name } = cluster;
    if (isBranch(cluster)) return undefined;
    const { clock, ways } = this.#deps;
    if (!mayFallAsleep(cluster) || this.#waking.has(name) || this.#falling.has(name)) {
      this.#uses.forget(name);
      if (!isAwake(cluster)) this.#awakeSince.delete(name);
      return undefined;
    }
    const now = clock.now();
    const since = this.#awakeSince.get(name) ?? now;
    this.#awakeSince.set(name, since);
    const { lastAt, held } = ways.activity(name);
    const used = Math.max(lastAt, since, this.#uses.seenAt(name));
    const isQuiet = held === 0 && now - used >= policyOf(cluster).afterIdleSeconds * 1_000;
    return this.#uses.permitSleep(cluster, isQuiet && !isHeld(cluster, now)) ? used : undefined;
  }

  async #run(type: string, args: SleepArgs | { readonly name: string }): Promise<void> {
    const { engine } = this.#deps;
    const { operation } = await engine.submit({
      type,
      resources: [`vcluster/${args.name}`],
      args,
      subject: args.name,
      actor: "root@pam",
      requestId: randomUUID(),
    });
    const { state, error } = await engine.wait(operation.id);
    if (state !== "done") throw new AppError("internal.error", `${type} of ${args.name}: ${error ?? state}`);
  }
}
