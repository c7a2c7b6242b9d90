// Which keys a remote peer may read and write. Ranges are half-open byte intervals, as everywhere in the store.
import { AppError } from "@gpve/contracts/errors.ts";
import { compareBytes } from "../keys.ts";
import type { Bytes, Op, TxnRequest } from "../port.ts";

export interface KeyRules {
  /** Prefixes whose keys may be read. */
  readonly read: readonly string[];
  /** Prefixes cut out of `read`: they look empty. */
  readonly hidden: readonly string[];
  /** Prefixes besides which everything in `read` looks empty; absent = none does. */
  readonly only?: readonly string[];
  /** Prefixes whose keys may be written. */
  readonly write: readonly string[];
  /** What may be put below some of these prefixes: records that others must be able to read. */
  readonly values?: readonly {
    readonly prefix: string;
    /** `id`: the rest of the key. */
    readonly accepts: (value: Bytes, id: string) => boolean;
  }[];
  /** Keys that may be put, with nothing in them, and not deleted. */
  readonly marks?: readonly string[];
}

export interface Interval {
  readonly start: Bytes;
  /** undefined = exactly `start`. */
  readonly end?: Bytes;
}

const text = new TextEncoder();

export class KeyGuard {
  readonly #read: readonly Interval[];
  readonly #hidden: readonly { start: Bytes; end: Bytes }[];
  readonly #write: readonly Interval[];
  readonly #marks: readonly Bytes[];
  readonly #values: NonNullable<KeyRules["values"]>;

  constructor(rules: KeyRules) {
    this.#read = rules.read.map(prefix);
    const closed =
      rules.only === undefined ? [] : rules.read.flatMap((each) => gaps(prefix(each), rules.only ?? []));
    this.#hidden = [...rules.hidden.map(prefix), ...closed].toSorted((a, b) =>
      compareBytes(a.start, b.start),
    );
    this.#write = rules.write.map(prefix);
    this.#values = rules.values ?? [];
    this.#marks = (rules.marks ?? []).map((mark) => text.encode(mark));
  }

  /** The parts of the interval that may be seen, in order. Throws when it reaches outside all read prefixes. */
  visible(key: Bytes, end: Bytes | undefined): Interval[] {
    const interval: Interval = end === undefined ? { start: key } : { start: key, end };
    if (!this.#read.some((allowed) => inside(interval, allowed))) throw denied("read", key);
    if (end === undefined) return this.isHidden(key) ? [] : [interval];
    const parts: Interval[] = [];
    let start = key;
    for (const hole of this.#hidden) {
      if (compareBytes(hole.end, start) <= 0 || compareBytes(hole.start, end) >= 0) continue;
      if (compareBytes(start, hole.start) < 0) parts.push({ start, end: hole.start });
      if (compareBytes(start, hole.end) < 0) start = hole.end;
    }
    if (compareBytes(start, end) < 0) parts.push({ start, end });
    return parts;
  }

  isHidden(key: Bytes): boolean {
    return this.#hidden.some((hole) => inside({ start: key }, hole));
  }

  maySee(key: Bytes): boolean {
    return !this.isHidden(key) && this.#read.some((allowed) => inside({ start: key }, allowed));
  }

  /** Throws unless every read and write of the transaction is allowed. Reads in it may not touch hidden keys. */
  checkTxn(request: TxnRequest): void {
    for (const item of request.compare) this.#checkPlainRead(item.key, item.end);
    for (const op of [...request.success, ...(request.failure ?? [])]) this.#checkOp(op);
  }

  #checkOp(op: Op): void {
    switch (op.type) {
      case "range":
        this.#checkPlainRead(op.key, op.end);
        return;
      case "put":
        if (op.value.length === 0 && this.#marks.some((mark) => compareBytes(mark, op.key) === 0)) return;
        this.#checkWrite(op.key, undefined);
        this.#checkValue(op);
        return;
      case "delete":
        this.#checkWrite(op.key, op.end);
        return;
      case "txn":
        this.checkTxn(op);
        return;
    }
  }

  #checkValue({ key, value, ignoreValue }: Extract<Op, { type: "put" }>): void {
    // It keeps the value that is there, which was looked at when it came.
    if (ignoreValue === true) return;
    const name = new TextDecoder().decode(key);
    const rule = this.#values.find(({ prefix: home }) => name.startsWith(home));
    if (rule === undefined || rule.accepts(value, name.slice(rule.prefix.length))) return;
    throw new AppError("access.denied", `this peer may not write ${name}: it is no record of that kind`);
  }

  #checkPlainRead(key: Bytes, end: Bytes | undefined): void {
    const parts = this.visible(key, end);
    const whole = parts.length === 1 && parts[0]?.start === key && parts[0].end === end;
    if (!whole) throw denied("read", key);
  }

  #checkWrite(key: Bytes, end: Bytes | undefined): void {
    const interval: Interval = end === undefined ? { start: key } : { start: key, end };
    if (!this.#write.some((allowed) => inside(interval, allowed))) throw denied("write", key);
  }
}

function inside(interval: Interval, allowed: Interval): boolean {
  if (compareBytes(interval.start, allowed.start) < 0) return false;
  if (allowed.end === undefined)
    return interval.end === undefined && compareBytes(interval.start, allowed.start) === 0;
  if (interval.end === undefined) return compareBytes(interval.start, allowed.end) < 0;
  // A single 0 byte means "to the end of all keys": it sorts first and so must be named.
  if (interval.end.length === 1 && interval.end[0] === 0) return false;
  return compareBytes(interval.end, allowed.end) <= 0;
}

/** What of `whole` lies below none of the prefixes. */
function gaps(
  whole: { start: Bytes; end: Bytes },
  prefixes: readonly string[],
): { start: Bytes; end: Bytes }[] {
  const found: { start: Bytes; end: Bytes }[] = [];
  let { start } = whole;
  for (const open of prefixes.map(prefix).toSorted((a, b) => compareBytes(a.start, b.start))) {
    if (compareBytes(start, open.start) < 0) found.push({ start, end: open.start });
    if (compareBytes(start, open.end) < 0) start = open.end;
  }
  if (compareBytes(start, whole.end) < 0) found.push({ start, end: whole.end });
  return found;
}

function prefix(value: string): { start: Bytes; end: Bytes } {
  if (!value.endsWith("/")) throw new AppError("internal.error", `key prefix ${value} must end with a slash`);
  const start = text.encode(value);
  const end = text.encode(value);
  // The byte after "/" is "0": the end of every key below the prefix.
  end[end.length - 1] = 0x30;
  return { start, end };
}

function denied(what: "read" | "write", key: Bytes): AppError {
  return new AppError("access.denied", `this peer may not ${what} ${new TextDecoder().decode(key)}`);
}
