// Lines from the stores of this node's clusters to their standbys: one for each that wants it, opened again whenever it is
// cut. What goes over it is none of the agent's business. Where both ends outlive agents a process of its own keeps the line, and an
// agent that comes finds it open; else, and where no such line gets through, it goes by way of the two agents.
import { isAppError, messageOf } from "@gpve/contracts/errors.ts";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import { standbyLineId } from "@gpve/domain/vcluster/standby/standby.ts";
import type {
  LastingLines,
  LineEnd,
  StandbyHost,
  StandbyPeers,
} from "@gpve/domain/vcluster/standby/ports.ts";
import { background, ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { every } from "@gpve/kit/every.ts";

export interface KeepLinesDeps {
  readonly standbys: StandbyHost;
  readonly peers: StandbyPeers;
  readonly lasting: LastingLines;
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
/** Where nobody is let through it is not tried at each line: writes wait meanwhile. */
const LASTING_AGAIN_MS = 60_000;
/** The process there may have to be started first. Nobody waits for a store that has not joined, and else writes do. */
const PLACE_MS = { joined: 5_000, alone: 30_000 } as const;
/** Of who keeps it, to open it again. */
const REOPEN_MS = 1_000;

export class KeepLines {
  readonly #deps: KeepLinesDeps;
  readonly #stop = new AbortController();
  readonly #open = new Map<string, AbortController>();
  readonly #said = new Map<string, number>();
  readonly #told = new Map<string, string>();
  /** By node: until when no line that lasts is tried. */
  readonly #barred = new Map<string, number>();

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
    const { clock, standbys, lasting, log } = this.#deps;
    background(log, "finding the lines to standbys that are there", lasting.adopt());
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
        await this.#tidy();
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
    const { standbys, changed, lasting } = this.#deps;
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
    // An agent before this one may have left it, too.
    const ids = new Set([...wanted.values()].map(idOf));
    for (const id of lasting.opened()) if (!ids.has(id)) lasting.close(id);
  }

  /** Of those that keep lines: what nobody wants any more. */
  async #tidy(): Promise<void> {
    const { standbys, lasting, log } = this.#deps;
    const followed = standbys.list().map(idOf);
    lasting.keepPlaces(followed);
    // One of a cluster that sleeps is wanted when that wakes, and somebody waits then.
    if (followed.length > 0 || standbys.hasLeads()) return;
    await lasting
      .endIfIdle()
      .catch((err: unknown) => log.warn({ err: messageOf(err) }, "who keeps lines to standbys does not end"));
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
    const { findMove, peers, standbys, lasting } = this.#deps;
    const id = standbyLineId(name, generation);
    const end = standbys.leadEnd(name);
    if (end.isLasting === true && (await this.#isKept(id, signal))) return;
    const move = await findMove(id);
    // Its servers have not said so yet, or not any more.
    if (move === undefined || move.vcluster !== name || signal.aborted) return;
    if (await this.#isLaid(move, end, signal)) {
      await lasting.whileOpen(id, signal);
    } else if (!signal.aborted) {
      // The store has one line: who keeps a former one is not to open that again beside this one.
      lasting.close(id);
      await peers.standbyLine(move, end, signal);
    }
  }

  /** Whether somebody had it open, when that is over. */
  async #isKept(id: string, signal: AbortSignal): Promise<boolean> {
    const { lasting, clock } = this.#deps;
    if (!(await lasting.isOpen(id))) {
      if (!lasting.opened().includes(id)) return false;
      await clock.sleep(REOPEN_MS, signal);
      if (!(await lasting.isOpen(id))) return false;
    }
    await lasting.whileOpen(id, signal);
    return true;
  }

  /** Whether it is open, and outlives this agent. */
  async #isLaid(move: GuestMove, end: LineEnd, signal: AbortSignal): Promise<boolean> {
    const { peers, lasting, standbys, clock, log } = this.#deps;
    const { id, to, vcluster = "" } = move;
    const isBarred = (this.#barred.get(to.node) ?? 0) > clock.monotonic();
    if (end.isLasting !== true || isBarred) return false;
    let isPlaced = false;
    try {
      const { isJoined = false } = standbys.state(vcluster) ?? {};
      const enough = AbortSignal.timeout(isJoined ? PLACE_MS.joined : PLACE_MS.alone);
      const place = await peers.standbyPlace(move, AbortSignal.any([signal, enough]));
      isPlaced = true;
      await lasting.open({ id, address: to.address, place, end });
      return true;
    } catch (err) {
      // There is a way, and only nobody at its end yet: of a standby that is being opened.
      if (isPlaced && isAppError(err, "store.unavailable")) throw err;
      // An agent of before does not know of it, and one that is away is not reached in the other way either.
      if (!isPlaced) ignore(err, "what the other way says is told");
      else {
        this.#barred.set(to.node, clock.monotonic() + LASTING_AGAIN_MS);
        const about = { resource: `vcluster/${vcluster}`, node: to.node, err: messageOf(err) };
        log.warn(about, "a line to a standby goes by way of the agents: writes wait while one is restarted");
      }
      return false;
    }
  }
}

function idOf({ name, generation }: { readonly name: string; readonly generation: number }): string {
  return standbyLineId(name, generation);
}
