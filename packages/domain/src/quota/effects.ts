// What a request will do to guests, as far as quotas care. Worked out from the request and the configurations that are
// there, before anything is done.
import type { GuestType } from "../guest/guest-kinds.ts";
import type { Amounts } from "./amounts.ts";

export interface Effect {
  readonly vmid: number;
  readonly type: GuestType;
  /** Set: a guest that is not there yet, and the pool it goes to. */
  readonly isNew?: { readonly pool: string | undefined };
  /** What it takes when the work is done. */
  readonly demand: Amounts;
  readonly tags: readonly string[];
  /** It will run. */
  readonly starts?: true;
}

/** What must be asked of a node before effects can be known: sizes of volumes, configurations inside backups. */
export interface Unknowns {
  readonly volumes: readonly string[];
  readonly archive?: string;
}

export interface Answers {
  /** Bytes by volume id. */
  readonly sizes: Readonly<Record<string, number>>;
  /** Text of the configuration in the archive. */
  readonly archived?: string;
}

export const NO_ANSWERS: Answers = { sizes: {} };
