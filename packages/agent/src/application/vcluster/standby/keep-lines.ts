// Lines from the stores of this node's clusters to their standbys: one for each that wants it, opened again whenever it is
// cut. What goes over it is none of the agent's business.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import { standbyLineId } from "@gpve/domain/vcluster/standby/standby.ts";
import type { StandbyHost, StandbyPeers } from "@gpve/domain/vcluster/standby/ports.ts";
import { background, ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { every } from "@gpve/kit/every.ts";

export interface KeepLinesDeps {
  readonly standbys: StandbyHost;
  readonly peers: StandbyPeers;
  /** Resolves when the note of it is here; undefined = no server has allowed it. */
  readonly findMove: (moveId: string) => Promise<GuestMove | undefined>;
  readonly clock: Clock;
  readonly log: Logger;
  /** Servers are to be told soon. */
  readonly changed: () => void;
}

const LOOK_MS = 250;
const PAUSE_MS = 500;
const PROCESS_MS = 1_000;
/** Why a line is not there is said now and then. */
const SAY_MS = 60_000;

export class KeepLines {
  readonly #deps: KeepLinesDeps;
  readonly #stop = new AbortController();
  readonly #open = new Map<string, AbortController>();
  readonly #said = new Map<string, number>();
  readonly #told = new Map<string, string>();

  constructor(deps: KeepLinesDeps) {
    this.#deps = deps;
  }

  start(): void {
    background(this.#deps.log, "standbys of virtual clusters", this.#run());
  }

  close(): void {
    this.#stop.abort();
    for (const line of this.#open.values()) line.abort();
  }

  async #run(): Promise<void> {
    const { clock, standbys, log } = this.#deps;
    for (const { name } of standbys.list())
      await standbys
        .follow(name)
        .catch((err: unknown) =>
          log.error({ resource: `vcluster/${name}`, err: messageOf(err) }, "a standby cannot be followed"),
        );
    let lookedAt = clock.monotonic();
    await every(LOOK_MS, { clock, signal: this.#stop.signal }, async () => {
      this.#look();
      if (clock.monotonic() - lookedAt >= PROCESS_MS) {
        await this.#keepProcess();
        lookedAt = clock.monotonic();
      }
    });
  }

  /** It ends for everybody at once: nobody's store answers, and nobody is followed. */
  async #keepProcess(): Promise<void> {
    const { standbys, log } = this.#deps;
    try {
      if (await standbys.keepProcess())
        log.warn({}, "the stores of virtual clusters had ended and run again");
    } catch (err) {
      log.error({ err: messageOf(err) }, "the stores of virtual clusters cannot be started again");
    }
  }

  #look(): void {
    const { standbys, changed } = this.#deps;
    const wanted = new Map(standbys.wantedLines().map((each) => [`${each.name} ${each.generation}`, each]));
    for (const [line, { name, generation }] of wanted) {
      const { isJoined, isConnected } = standbys.state(name) ?? {};
      const now = `${isJoined} ${isConnected}`;
      if (this.#told.get(line) !== now) changed();
      this.#told.set(line, now);
      if (!this.#open.has(line)) this.#begin(name, generation, line);
    }
    for (const [line, stop] of this.#open) if (!wanted.has(line)) stop.abort();
    for (const line of this.#told.keys()) if (!wanted.has(line)) this.#told.delete(line);
  }

  #begin(name: string, generation: number, line: string): void {
    const { log, clock } = this.#deps;
    const stop = new AbortController();
    this.#open.set(line, stop);
    const kept = this.#keep(name, generation, stop.signal)
      .catch((err: unknown) => {
        const now = clock.monotonic();
        if (now - (this.#said.get(line) ?? Number.NEGATIVE_INFINITY) < SAY_MS || stop.signal.aborted) return;
        this.#said.set(line, now);
        log.warn({ resource: `vcluster/${name}`, err: messageOf(err) }, "the standby cannot be reached");
      })
      .then(() => clock.sleep(PAUSE_MS, this.#stop.signal))
      .catch((err: unknown) => ignore(err, "the agent stops"))
      .finally(() => this.#open.delete(line));
    background(log, `line to the standby of ${name}`, kept);
  }

  /** Resolves when the line is cut. */
  async #keep(name: string, generation: number, signal: AbortSignal): Promise<void> {
    const { findMove, peers, standbys } = this.#deps;
    const move = await findMove(standbyLineId(name, generation));
    // Its servers have not said so yet, or not any more.
    if (move === undefined || move.vcluster !== name || signal.aborted) return;
    await peers.standbyLine(move, standbys.leadEnd(name), signal);
  }
}
