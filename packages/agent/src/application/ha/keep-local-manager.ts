// The local manager's rounds, and the deadlines of the guests that it looks after.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { LocalManager } from "@gpve/domain/ha/local-manager.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { every } from "@gpve/kit/every.ts";
import type { LocalEnvironment } from "./local-environment.ts";

/** A guest's process as far as deadlines go. */
export interface GuardableGuest {
  readonly id: string;
  readonly hasExited: boolean;
  readonly isGuarded: boolean;
  guard(file: string): Promise<void>;
  unguard(): Promise<void>;
}

export interface LocalRoundsDeps {
  readonly environment: LocalEnvironment;
  readonly clock: Clock;
  readonly log: Logger;
  /** Main processes of guests, by their id. */
  readonly running: () => readonly GuardableGuest[];
  readonly sidOf: (vmid: number) => string;
  /** Of the deadline; undefined = this node's guests can be taken by nobody. */
  readonly guardFile: string | undefined;
  /** Makes sure that the fence process runs. */
  readonly ensureFence: () => void;
}

const ROUND_MS = 1_000;

export class LocalRounds {
  readonly #deps: LocalRoundsDeps;
  #manager: LocalManager;
  #ended = false;

  constructor(deps: LocalRoundsDeps) {
    this.#deps = deps;
    this.#manager = new LocalManager(deps.environment.view);
  }

  /** Where the deadline of a guest about to start is; throws where it needs one and may have none. */
  guardOf(id: string): string | undefined {
    const { environment, guardFile, sidOf } = this.#deps;
    if (!isGuest(id) || !environment.isManaged(sidOf(Number(id)))) return undefined;
    if (this.mayRun(Number(id))) return guardFile;
    throw new AppError(
      "object.conflict",
      `guest ${id} is under HA, and this node does not hold the lease on such guests: the HA manager starts it where it may run (gpvectl ha status)`,
    );
  }

  /** False = it is under HA, and this node does not hold the lease. */
  mayRun(vmid: number): boolean {
    const { environment, sidOf } = this.#deps;
    return environment.holdsLease() || !environment.isManaged(sidOf(vmid));
  }

  allGuarded(): boolean {
    const { guardFile } = this.#deps;
    return guardFile === undefined || this.#managed().every((guest) => guest.isGuarded);
  }

  async unguardAll(): Promise<void> {
    for (const guest of this.#guests()) if (guest.isGuarded) await guest.unguard();
  }

  /** The node goes down or reboots: resolves when the services here are where the policy wants them. */
  async leave(reason: "shutdown" | "reboot", timeoutMs: number): Promise<void> {
    const { clock } = this.#deps;
    this.#manager.requestShutdown(reason);
    const end = clock.monotonic() + timeoutMs;
    while (!this.#ended && clock.monotonic() < end) await clock.sleep(ROUND_MS / 4);
  }

  /** As after a start of the agent: what had left comes back, what was frozen goes on. */
  resume(): void {
    this.#manager = new LocalManager(this.#deps.environment.view);
    this.#ended = false;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#deps;
    await every(ROUND_MS, { clock, signal }, async () => {
      try {
        await this.round();
      } catch (err) {
        log.warn(
          { err: messageOf(err) },
          "a round of HA on this node was given up; the next one tries again",
        );
      }
    });
  }

  async round(): Promise<void> {
    const { environment, ensureFence } = this.#deps;
    ensureFence();
    if (this.#ended || !environment.view.refresh()) return;
    this.#ended = !this.#manager.round();
    await this.#keepDeadlines();
    await environment.flush();
    // Else it would be kept, and the watchdog armed, until something came under HA here and left again.
    if (!this.#manager.needsLease() && !this.#guests().some(({ isGuarded }) => isGuarded))
      environment.giveBack();
  }

  /** Guests come under HA and leave it while they run. */
  async #keepDeadlines(): Promise<void> {
    const { environment, guardFile, log } = this.#deps;
    if (guardFile === undefined) return;
    const managed = new Set(this.#managed());
    for (const guest of this.#guests()) {
      try {
        if (managed.has(guest) && !guest.isGuarded && environment.holdsLease()) await guest.guard(guardFile);
        if (!managed.has(guest) && guest.isGuarded) await guest.unguard();
      } catch (err) {
        if (guest.hasExited) continue;
        log.warn({ guest: guest.id, err: messageOf(err) }, "the deadline of a guest could not be changed");
      }
    }
  }

  #managed(): readonly GuardableGuest[] {
    const { environment, sidOf } = this.#deps;
    return this.#guests().filter(({ id }) => environment.isManaged(sidOf(Number(id))));
  }

  #guests(): readonly GuardableGuest[] {
    return this.#deps.running().filter(({ id, hasExited }) => isGuest(id) && !hasExited);
  }
}

/** Helpers of guests have longer ids. */
function isGuest(id: string): boolean {
  return /^[1-9]\d*$/.test(id);
}
