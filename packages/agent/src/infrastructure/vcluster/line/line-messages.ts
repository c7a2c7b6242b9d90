// What agent and the process that keeps lines to standbys tell each other: one JSON object on a line.
import type { DirectPlace } from "@gpve/domain/vm/migrate/direct-line.ts";

export interface DialWords {
  readonly id: string;
  readonly address: string;
  readonly place: DirectPlace;
  /** The store's own socket. */
  readonly path: string;
}

export interface PlaceWords {
  readonly id: string;
  /** Of this host. */
  readonly address: string;
  readonly secret: string;
  /** The standby's own socket. */
  readonly path: string;
}

export type ToLines =
  | { readonly seq: number; readonly dial: DialWords }
  | { readonly seq: number; readonly listen: PlaceWords }
  | { readonly drop: string }
  | { readonly keep: readonly string[] };

export type FromLines =
  /** `why`: it was not done. `isReached`: the other process is, and only who is behind it takes nobody now. */
  | {
      readonly ack: number;
      readonly port?: number;
      readonly why?: string;
      readonly isReached?: boolean;
    }
  /** All that were dialed, and whether they are open now: said first. */
  | { readonly lines: Readonly<Record<string, boolean>> }
  /** One of them is so now; `isOpen` absent: there is none. */
  | { readonly line: string; readonly isOpen?: boolean };
