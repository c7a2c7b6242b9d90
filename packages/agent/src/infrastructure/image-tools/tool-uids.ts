// A user for each run of a tool, which nobody else is while it runs: what one run has, the next one does not reach.
import { randomInt } from "node:crypto";
import { AppError } from "@gpve/contracts/errors.ts";

/** Below the guests', whose users begin at 0x40000000. */
const FIRST = 0x3fff_0000;
const COUNT = 0xff00;

export class ToolUids {
  readonly #used = new Set<number>();
  /** Other agents of this machine begin elsewhere. */
  #next = randomInt(COUNT);

  take(): number {
    for (let tries = 0; tries < COUNT; tries++) {
      const uid = FIRST + (this.#next++ % COUNT);
      if (this.#used.has(uid)) continue;
      this.#used.add(uid);
      return uid;
    }
    throw new AppError(
      "capacity.exceeded",
      `${COUNT} image tools run at once: try again when some have ended`,
    );
  }

  free(uid: number): void {
    this.#used.delete(uid);
  }
}
