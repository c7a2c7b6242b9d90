// What a bounded store keeps free. Whoever deletes writes too, and what was deleted takes its room until it is compacted: where
// puts could take all of it, nobody would get any back.
//
//   0 ──────── puts ────────┬──── deletes ────┬─ compactions ─┐ maxBytes
//                         15/16             63/64             the file grows no further
import { equalBytes, utf8 } from "../keys.ts";
import type { Op } from "../port.ts";
import { refusal } from "../refusals.ts";
import type { Tables } from "./tables.ts";

/** Kubernetes agrees by it who compacts, and compacts when that is written. */
const COMPACTS = utf8("compact_rev_key");

export class Room {
  readonly #tables: Pick<Tables, "usedPages">;
  readonly #path: string;
  readonly #forPuts: number;
  readonly #forDeletes: number;

  constructor(tables: Pick<Tables, "usedPages">, path: string, mostPages: number) {
    this.#tables = tables;
    this.#path = path;
    this.#forPuts = Math.floor((mostPages * 15) / 16);
    this.#forDeletes = Math.floor((mostPages * 63) / 64);
  }

  /** Throws where that is not to be written any more. */
  require(op: Op & { readonly type: "put" | "delete" }): void {
    const isPut = op.type === "put";
    if (isPut && equalBytes(op.key, COMPACTS)) return;
    if (this.#tables.usedPages() < (isPut ? this.#forPuts : this.#forDeletes)) return;
    throw refusal(
      "noSpace",
      `the store ${this.#path} has as much as it may have: ${isPut ? "delete what is not needed any more, which is possible still" : "what was deleted gives its room back when it is compacted"}; nothing was written`,
      { data: { path: this.#path } },
    );
  }
}
