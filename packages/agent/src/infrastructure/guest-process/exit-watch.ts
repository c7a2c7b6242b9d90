// Notices the end of a guest: the supervisor writes the exit file, the folder's watch tells at once. Should the
// supervisor itself have been killed, a look at the process every now and then finds out.
import { type FSWatcher, watch } from "node:fs";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { identify } from "@gpve/kit/process-identity.ts";
import type { ExitRecord, GuestFolder, GuestState } from "./guest-folder.ts";

/** Watch and monitor tell at once; this is for when neither could. */
const LOOK_MS = 30_000;
/** After the process is gone its supervisor, if alive, needs a moment to write. */
const GRACE_MS = 2_000;

export class ExitWatch {
  readonly #folder: GuestFolder;
  readonly #state: GuestState;
  readonly #clock: Clock;
  #watcher: FSWatcher | undefined;
  #stopTimer: () => void = () => undefined;
  #settle: (record: ExitRecord | undefined) => void = () => undefined;
  #goneSince: number | undefined;
  /** The record, or undefined when nobody wrote one. */
  readonly ended: Promise<ExitRecord | undefined>;

  constructor(folder: GuestFolder, state: GuestState, clock: Clock) {
    this.#folder = folder;
    this.#state = state;
    this.#clock = clock;
    this.ended = new Promise((resolve) => {
      this.#settle = resolve;
    });
    try {
      this.#watcher = watch(folder.path, { persistent: false }, () => this.look());
      this.#watcher.on("error", (err) => ignore(err, "the timer looks too"));
    } catch (err) {
      ignore(err, "no more watches to be had: the timer looks too");
    }
    this.look();
  }

  /** Looks now; anyone with a hint may call it. */
  look(): void {
    this.#stopTimer();
    const record = recordOf(this.#folder, this.#state);
    if (record !== undefined) {
      this.#end(record);
      return;
    }
    if (isRunning(this.#state)) {
      this.#goneSince = undefined;
      this.#folder.trimLog();
      this.#stopTimer = this.#clock.after(LOOK_MS, () => this.look());
      return;
    }
    this.#goneSince ??= this.#clock.monotonic();
    if (this.#clock.monotonic() - this.#goneSince >= GRACE_MS) this.#end(undefined);
    else this.#stopTimer = this.#clock.after(50, () => this.look());
  }

  close(): void {
    this.#stopTimer();
    this.#watcher?.close();
  }

  #end(record: ExitRecord | undefined): void {
    this.close();
    this.#settle(record);
  }
}

/** The same process, not one that got its number later. A zombie has ended. */
export function isRunning(state: GuestState): boolean {
  return identify(state.pid)?.startTime === state.startTime;
}

export function recordOf(folder: GuestFolder, state: GuestState): ExitRecord | undefined {
  const record = folder.readExit();
  return record?.pid === state.pid && record.startTime === state.startTime ? record : undefined;
}
