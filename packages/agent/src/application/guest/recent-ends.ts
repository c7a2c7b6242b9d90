// How the guests that ended lately came to their end, for the next few reports: servers tell people.
import { given } from "@gpve/contracts/given.ts";
import type { EndedGuest } from "@gpve/domain/guest/guest-processes.ts";
import type { GuestEnd } from "@gpve/domain/node/runtime.ts";

const KEEP = 64;
const WORDS = 200;

export class RecentEnds {
  #ends: readonly GuestEnd[] = [];

  /** `ownerOf`: the node that has a guest which was ended here for that. */
  constructor(
    processes: { onExit(listener: (ended: EndedGuest) => void): () => void },
    ownerOf: (id: string) => string | undefined = () => undefined,
  ) {
    processes.onExit((ended) => {
      // Helpers have names, guests have numbers.
      if (!/^\d+$/.test(ended.id)) return;
      const end = { ...endOf(ended), ...given({ owner: ownerOf(ended.id) }) };
      this.#ends = [...this.#ends, end].slice(-KEEP);
    });
  }

  list(): readonly GuestEnd[] {
    return this.#ends;
  }
}

export function endOf({ id, exit }: EndedGuest): GuestEnd {
  const { cause, at, reason, exitCode, signal, outOfMemory, lastWords } = exit;
  const words = lastWords.trim().split("\n").at(-1)?.slice(0, WORDS) ?? "";
  const how = [
    outOfMemory ? "out of memory" : cause,
    reason === undefined ? "" : reason,
    signal === undefined ? "" : `signal ${signal}`,
    exitCode === undefined || exitCode === 0 ? "" : `exit code ${exitCode}`,
    cause === "shutdown" || cause === "stopped" ? "" : words,
  ];
  return {
    vmid: Number(id),
    at,
    isCrash: outOfMemory || cause === "crashed" || cause === "killed",
    why: how.filter((part) => part !== "").join(", "),
  };
}
