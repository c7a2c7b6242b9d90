// What keeps clusters awake that nobody is connected to, as far as they were asked. They are asked when they would sleep otherwise,
// and then for as long as something keeps them awake: whoever has a connection need not be asked about.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { type AskUses, policyOf } from "./ask-uses.ts";

export interface ClusterUsesDeps {
  readonly ask: AskUses;
  readonly clock: Pick<Clock, "now">;
}

interface Known {
  readonly what: readonly string[];
  /** When something was seen last, and when it was asked. */
  readonly seenAt: number;
  readonly askedAt: number;
}

const NOTHING: Known = { what: [], seenAt: 0, askedAt: Number.NEGATIVE_INFINITY };
/** What keeps one awake is looked at again so often. */
const AGAIN_MS = 30_000;
/** By an answer as old as this one may sleep. */
const FRESH_MS = 5_000;

export class ClusterUses {
  readonly #deps: ClusterUsesDeps;
  readonly #known = new Map<string, Known>();
  readonly #asking = new Set<string>();
  readonly #stop = new AbortController();

  constructor(deps: ClusterUsesDeps) {
    this.#deps = deps;
  }

  /** When something was seen last; milliseconds since the epoch, 0 = never. */
  seenAt(name: string): number {
    return this.#of(name).seenAt;
  }

  /** What was seen when it was asked last. */
  what(name: string): readonly string[] {
    return this.#of(name).what;
  }

  /** Whether nothing of the kind keeps it awake; `isQuiet`: it would sleep otherwise. While that is being asked, it does not. */
  permitSleep(cluster: KeptCluster, isQuiet: boolean): boolean {
    const { name } = cluster;
    if (policyOf(cluster).keepAwake === undefined) {
      this.forget(name);
      return isQuiet;
    }
    if (this.#asking.has(name)) return false;
    const { what, askedAt } = this.#of(name);
    const isKept = what.length > 0;
    const isOld = this.#deps.clock.now() - askedAt >= (isKept ? AGAIN_MS : FRESH_MS);
    if (isOld && (isQuiet || isKept)) {
      this.#asking.add(name);
      void this.#ask(cluster).finally(() => this.#asking.delete(name));
      return false;
    }
    return isQuiet && !isKept;
  }

  /** It is not awake. */
  forget(name: string): void {
    this.#known.delete(name);
  }

  close(): void {
    this.#stop.abort();
  }

  #of(name: string): Known {
    return this.#known.get(name) ?? NOTHING;
  }

  async #ask(cluster: KeptCluster): Promise<void> {
    const { ask, clock } = this.#deps;
    const { name } = cluster;
    const { seenAt } = this.#of(name);
    try {
      const signs = await ask(cluster, this.#stop.signal);
      const last = Math.max(seenAt, ...signs.map(({ at }) => at));
      this.#known.set(name, { what: signs.map(({ what }) => what), seenAt: last, askedAt: clock.now() });
    } catch (err) {
      // Who cannot tell is not put to sleep: what he was to heed may be there.
      const what = [`what else uses it cannot be found out: ${messageOf(err)}`];
      this.#known.set(name, { what, seenAt, askedAt: clock.now() });
    }
  }
}
