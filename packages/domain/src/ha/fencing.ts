// What the keeper of a node's lease works with, and what it tells the agent.

export interface GuardedGuests {
  /** They may run until then; milliseconds since boot. */
  setDeadline(bootMs: number): void;
  /** Kills those that still run under a deadline; the names of those that had to be, and of those that did not go. */
  end(): Promise<{ readonly ended: readonly string[]; readonly left: readonly string[] }>;
}

export interface Watchdog {
  /** Armed from the first time on. */
  feed(): void;
  /** Nothing needs it any more. */
  disarm(): void;
}

export interface LeaseReport {
  readonly held: boolean;
  readonly token: number;
  /** Milliseconds since boot; 0 = never. */
  readonly deadline: number;
  readonly renewed: number;
}
