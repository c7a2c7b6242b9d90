// Recent events: /gpve/events/, a bounded ring. Events are news, not truth: recording one never fails its caller
// and never holds it up; alike events are counted instead of repeated.
import { createHash } from "node:crypto";
import { messageOf } from "@gpve/contracts/errors.ts";
import { background } from "@gpve/kit/background.ts";
import type { FailureLog } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { CollectionDef, Records } from "@gpve/store/records/port.ts";

export interface EventInput {
  readonly type: "Normal" | "Warning";
  /** One word in CamelCase: "NodeOffline". */
  readonly reason: string;
  readonly object: { readonly kind: string; readonly name: string; readonly namespace?: string };
  readonly message: string;
  readonly node?: string;
}

export interface RecordOptions {
  /**
   * What happened, told apart from everything else, and when: several servers that see the same thing then write
   * the same event, once.
   */
  readonly once?: { readonly at: number; readonly text: string };
}

export interface EventRecord extends EventInput {
  readonly count: number;
  readonly firstAt: number;
  readonly lastAt: number;
}

export const eventCollection: CollectionDef<EventRecord> = {
  prefix: "/gpve/events/",
  decode: (json) => {
    const event = json as Partial<EventRecord> | null;
    if (
      typeof event !== "object" ||
      event === null ||
      typeof event.reason !== "string" ||
      typeof event.message !== "string" ||
      typeof event.object !== "object"
    ) {
      throw new TypeError("not an event record");
    }
    return event as EventRecord;
  },
};

/** What others call. */
export type RecordEvent = (event: EventInput, options?: RecordOptions) => void;

export interface EventRecorderOptions {
  readonly maxEvents?: number;
  /** Alike events within this time are counted on the first. */
  readonly foldMs?: number;
  /** Events are written together, this long after the first of them. */
  readonly flushMs?: number;
}

const MAX_PENDING = 1_000;
const MAX_MESSAGE = 1_024;
const MAX_BATCH = 40;

export class EventRecorder {
  readonly #records: Records;
  readonly #clock: Clock;
  readonly #log: FailureLog;
  readonly #newId: () => string;
  readonly #options: Required<EventRecorderOptions>;
  /** By what makes events alike; with the id where it is given by what happened. */
  readonly #pending = new Map<string, Pending>();
  #flushing = false;
  #scheduled = false;

  constructor(
    deps: {
      readonly records: Records;
      readonly clock: Clock;
      readonly log: FailureLog;
      /** ULIDs: ids sort by time. */
      readonly newId: () => string;
    },
    options: EventRecorderOptions = {},
  ) {
    this.#records = deps.records;
    this.#clock = deps.clock;
    this.#log = deps.log;
    this.#newId = deps.newId;
    this.#options = { maxEvents: 2_000, foldMs: 10 * 60_000, flushMs: 500, ...options };
  }

  readonly recordEvent: RecordEvent = (event, { once } = {}) => {
    const now = this.#clock.now();
    const message = event.message.slice(0, MAX_MESSAGE);
    const id = once === undefined ? undefined : eventId(once.at, once.text);
    const key = id ?? alike({ ...event, message });
    const known = this.#pending.get(key)?.event;
    if (known === undefined && this.#pending.size >= MAX_PENDING) return;
    this.#pending.set(key, {
      id,
      event: {
        ...event,
        message,
        count: id === undefined ? (known?.count ?? 0) + 1 : 1,
        firstAt: known?.firstAt ?? now,
        lastAt: now,
      },
    });
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#clock.after(this.#options.flushMs, () => {
      this.#scheduled = false;
      background(this.#log, "writing events", this.flush());
    });
  };

  /** Writes what waits. Keeps it for the next time when the store does not answer. */
  async flush(): Promise<void> {
    if (this.#flushing || this.#pending.size === 0) return;
    this.#flushing = true;
    const batch = new Map(this.#pending);
    this.#pending.clear();
    try {
      await this.#write([...batch.values()]);
    } catch (err) {
      this.#log.error({ err: messageOf(err), events: batch.size }, "events could not be written");
      for (const [key, event] of batch) if (!this.#pending.has(key)) this.#pending.set(key, event);
    } finally {
      this.#flushing = false;
    }
  }

  async #write(batch: readonly Pending[]): Promise<void> {
    const { maxEvents, foldMs } = this.#options;
    const collection = this.#records.collection(eventCollection);
    const recent = new Map<string, string>();
    for (const entry of collection.list()) {
      if (this.#clock.now() - entry.value.lastAt <= foldMs) recent.set(alike(entry.value), entry.id);
    }
    const surplus = collection.list().length + batch.length - maxEvents;
    const dropped = surplus > 0 ? collection.list().slice(0, surplus) : [];
    const writes = batch.map(({ id, event }) => ({
      id: id ?? recent.get(alike(event)) ?? this.#newId(),
      isOnce: id !== undefined,
      event,
    }));
    const written = new Set(writes.map(({ id }) => id));
    // A store takes only so many changes at once.
    for (const part of chunks(writes, MAX_BATCH)) {
      await this.#records.transact((tx) => {
        for (const { id, isOnce, event } of part) {
          const before = tx.get(eventCollection, id)?.value;
          if (before !== undefined && isOnce) continue;
          const folded =
            before === undefined
              ? event
              : { ...event, count: before.count + event.count, firstAt: before.firstAt };
          tx.put(eventCollection, id, folded);
        }
      });
    }
    for (const part of chunks(
      dropped.filter((entry) => !written.has(entry.id)),
      MAX_BATCH,
    )) {
      await this.#records.transact((tx) => {
        for (const entry of part) tx.delete(eventCollection, entry.id);
      });
    }
  }
}

interface Pending {
  readonly id: string | undefined;
  readonly event: EventRecord;
}

const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** A ULID whose random part follows from what happened. */
export function eventId(at: number, text: string): string {
  let time = "";
  for (let rest = Math.floor(at); time.length < 10; rest = Math.floor(rest / 32)) {
    time = `${CROCKFORD.charAt(rest % 32)}${time}`;
  }
  const hash = createHash("sha256").update(text).digest();
  return time + [...hash.subarray(0, 16)].map((byte) => CROCKFORD.charAt(byte % 32)).join("");
}

function chunks<T>(items: readonly T[], size: number): readonly (readonly T[])[] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_value, index) =>
    items.slice(index * size, (index + 1) * size),
  );
}

function alike(event: EventInput): string {
  return JSON.stringify([
    event.type,
    event.reason,
    event.object.kind,
    event.object.name,
    event.node ?? "",
    event.message,
  ]);
}
