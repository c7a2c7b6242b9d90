// The guests of this node that have a deadline, found by the marks in their folders: the agent may be dead.
import { kill } from "node:process";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { bootId } from "@gpve/kit/process-identity.ts";
import type { GuardedGuests } from "@gpve/domain/ha/fencing.ts";
import { isRunning } from "../guest-process/exit-watch.ts";
import { GuestFolder } from "../guest-process/guest-folder.ts";
import type { FenceFiles } from "./fence-files.ts";

const PATIENCE_MS = 500;
const LOOK_MS = 20;

/** Of a node that nobody else could take guests over from: they need no deadline. */
export const noGuests: GuardedGuests = {
  setDeadline: () => undefined,
  end: async () => ({ ended: [], left: [] }),
};

export class MarkedGuests implements GuardedGuests {
  readonly #folder: string;
  readonly #files: FenceFiles;
  readonly #clock: Clock;

  /** `guestsFolder`: DIR/run/guests. */
  constructor(guestsFolder: string, files: FenceFiles, clock: Clock) {
    this.#folder = guestsFolder;
    this.#files = files;
    this.#clock = clock;
  }

  setDeadline(bootMs: number): void {
    this.#files.writeDeadline(bootMs);
  }

  async end(): Promise<{ readonly ended: readonly string[]; readonly left: readonly string[] }> {
    const running = this.#running();
    for (const { pid } of running) {
      try {
        kill(pid, "SIGKILL");
      } catch (err) {
        ignore(err, "its supervisor was quicker");
      }
    }
    const names = running.map(({ id }) => id);
    for (let waited = 0; waited < PATIENCE_MS && this.#running().length > 0; waited += LOOK_MS)
      await this.#clock.sleep(LOOK_MS);
    const left = new Set(this.#running().map(({ id }) => id));
    return { ended: names.filter((id) => !left.has(id)), left: [...left] };
  }

  #running(): readonly { readonly id: string; readonly pid: number }[] {
    return GuestFolder.list(this.#folder).flatMap((folder) => {
      if (!folder.isGuarded()) return [];
      const state = folder.readState();
      if (state === undefined || folder.readCard()?.bootId !== bootId() || !isRunning(state)) return [];
      return [{ id: folder.id, pid: state.pid }];
    });
  }
}
