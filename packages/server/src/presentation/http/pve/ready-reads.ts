// Answers that are asked for again and again, by clients that have just shown their token: they are given without
// going the whole way from the request to the handler. What makes that safe is asked at every request, and all of it is
// in memory: that the words are those which were believed on this connection, that token, user and everybody's
// permissions are the same objects as then, and that the handler would say the very same.
import type { IncomingMessage } from "node:http";
import type { Answer } from "../respond.ts";

export interface ReadyRead {
  readonly answer: Answer;
  /** As metrics know it. */
  readonly route: string;
  /** Of whom the answer is for, see `Authenticated`. */
  readonly holds: () => boolean;
  readonly isSame: () => boolean;
}

interface Proof {
  readonly authorization: string;
  readonly authid: string;
  readonly holds: () => boolean;
}

const MAX_HEADER_FIELDS = 62;
/** Larger ones cost more to send than to find. */
const MAX_ANSWER_BYTES = 64 * 1024;
const MAX_BYTES = 16 * 1024 * 1024;
const MAX_ANSWERS = 20_000;

export class ReadyReads {
  /** Who spoke last on a connection. The words are kept no longer than it lasts. */
  readonly #proofs = new WeakMap<object, Proof>();
  readonly #answers = new Map<string, Map<string, ReadyRead>>();
  #bytes = 0;
  #count = 0;

  /** Somebody was believed. */
  proven(req: IncomingMessage, authid: string, holds: () => boolean): void {
    const { authorization } = req.headers;
    if (authorization !== undefined) this.#proofs.set(req.socket, { authorization, authid, holds });
  }

  keep(req: IncomingMessage, authid: string, read: ReadyRead): void {
    const size = read.answer.body?.length ?? 0;
    if (size > MAX_ANSWER_BYTES || req.url === undefined) return;
    if (this.#bytes + size > MAX_BYTES || this.#count >= MAX_ANSWERS) this.#forget();
    let own = this.#answers.get(authid);
    if (own === undefined) this.#answers.set(authid, (own = new Map()));
    const before = own.get(req.url);
    this.#bytes += size - (before?.answer.body?.length ?? 0);
    if (before === undefined) this.#count++;
    own.set(req.url, read);
  }

  /** undefined = it has to go the whole way. */
  find(req: IncomingMessage): ReadyRead | undefined {
    if (req.method !== "GET" || req.url === undefined) return undefined;
    const proof = this.#proofs.get(req.socket);
    if (proof === undefined) return undefined;
    const { headers } = req;
    if (headers.authorization !== proof.authorization || headers.cookie !== undefined) return undefined;
    if (headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined)
      return undefined;
    if (req.rawHeaders.length > 2 * MAX_HEADER_FIELDS) return undefined;
    const read = this.#answers.get(proof.authid)?.get(req.url);
    if (read === undefined || read.holds !== proof.holds) return undefined;
    return proof.holds() && read.isSame() ? read : undefined;
  }

  #forget(): void {
    this.#answers.clear();
    this.#bytes = 0;
    this.#count = 0;
  }
}
