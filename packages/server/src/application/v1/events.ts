// Recent events: /gpve/events/, a bounded ring. Events are news, not truth: recording one never fails its caller
// and never holds it up; alike events are counted instead of repeated.
import { messageOf } from "@gpve/contracts/errors.ts";
import { background } from "@gpve/kit/background.ts";
import type { FailureLog } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { CollectionDef, Records } from "@gpve/store/records/port.ts";

export interface EventInput {
  readonly type: "Normal" | "Warning";
  /** One word in CamelCase: "NodeOffline". */
  readonly reason: string;
  readonly object: { readonly kind: string; readonly name: string };
  readonly message: string;
  readonly node?: string;
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
export type RecordEvent = (event: EventInput) => void;

export interface EventRecorderOptions {
  readonly maxEvents?: number;
  /** Alike events within this time are counted on the first. */
  readonly foldMs?: number;
  /** Events are written together, this long after the first of them. */
  readonly flushMs?: number;
}

const MAX_PENDING = 1_000;
const MAX_MESSAGE = 1_024;

export class EventRecorder {
  readonly #records: Records;
  readonly #clock: Clock;
  readonly #log: FailureLog;
  readonly #newId: () => string;
  readonly #options: Required<EventRecorderOptions>;
  /** By what makes events alike. */
  readonly #pending = new Map<string, EventRecord>();
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

  readonly recordEvent: RecordEvent = (event) => {
    const now = this.#clock.now();
    const message = event.message.slice(0, MAX_MESSAGE);
    const key = alike({ ...event, message });
    const known = this.#pending.get(key);
    if (known === undefined && this.#pending.size >= MAX_PENDING) return;
    this.#pending.set(key, {
      ...event,
      message,
      count: (known?.count ?? 0) + 1,
      firstAt: known?.firstAt ?? now,
      lastAt: now,
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

  async #write(batch: readonly EventRecord[]): Promise<void> {
    const { maxEvents, foldMs } = this.#options;
    const collection = this.#records.collection(eventCollection);
    const recent = new Map<string, string>();
    for (const entry of collection.list()) {
      if (this.#clock.now() - entry.value.lastAt <= foldMs) recent.set(alike(entry.value), entry.id);
    }
    const surplus = collection.list().length + batch.length - maxEvents;
    const dropped = surplus > 0 ? collection.list().slice(0, surplus) : [];
    const ids = batch.map((event) => recent.get(alike(event)) ?? this.#newId());
    await this.#records.transact((tx) => {
      batch.forEach((event, index) => {
        const id = ids[index] ?? this.#newId();
        const before = tx.get(eventCollection, id)?.value;
        const folded =
          before === undefined
            ? event
            : { ...event, count: before.count + event.count, firstAt: before.firstAt };
        tx.put(eventCollection, id, folded);
      });
      for (const entry of dropped) if (!ids.includes(entry.id)) tx.delete(eventCollection, entry.id);
    });
  }
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
