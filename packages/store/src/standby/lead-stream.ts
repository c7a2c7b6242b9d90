// The leading side of a store with a standby: what is committed goes to it in order, after the own disk has it, and answers
// wait for its confirmation.
//
//   solo ──said──> catching up ──all confirmed──> joined ──said──> solo
//                       └─cut: again                └─cut: joined, and writes wait for the standby to be back
//
// Once joined, nothing but a word from outside (another generation) makes it answer without its standby: whoever makes the
// standby lead instead can be sure that nobody was told of more than that has. `boundMs` is what may be answered before it
// is confirmed, in time: 0 for nothing.
import type { Duplex } from "node:stream";
import { given } from "@gpve/contracts/given.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { KeyValue } from "../port.ts";
import type { Sync } from "../sqlite/wal-sync.ts";
import type { CommittedChange, CommitTap, HistorySource } from "./commit-tap.ts";
import { encodeFrame, type Frame, FrameReader } from "./frames.ts";

export interface LeadConfig {
  /** Rises with everything that is said about it. */
  readonly generation: number;
  readonly mode: "solo" | "stream";
  readonly boundMs: number;
}

export interface LeadState {
  readonly generation: number;
  readonly mode: "solo" | "stream";
  /** Every answered write is at the standby, but for `boundMs`. */
  readonly isJoined: boolean;
  readonly isConnected: boolean;
  /** Since when it is connected, or not; milliseconds since the epoch. */
  readonly since: number;
  /** The newest here, and the newest that is there too. */
  readonly revision: number;
  readonly confirmed: number;
}

export interface LeadStreamDeps {
  readonly clock: Clock;
  readonly say: (line: string) => void;
  /** The generation with which it has joined before; 0 = none. Written down before anything counts on it. */
  readonly joined: { read(): number; write(generation: number): void };
  /** Its state is another one. */
  readonly changed: () => void;
}

export const SOLO: LeadConfig = { generation: 0, mode: "solo", boundMs: 0 };
const PING_MS = 1_000;
/** A standby that confirms nothing for so long is none. */
const SILENT_MS = 5_000;
const CHUNK_BYTES = 1024 * 1024;
/** One that cannot keep up begins anew, from the disk. */
const MOST_QUEUED_BYTES = 64 * 1024 * 1024;

interface Pending {
  readonly seq: number;
  readonly change: CommittedChange;
}

export class LeadStream implements CommitTap {
  readonly #deps: LeadStreamDeps;
  #config: LeadConfig;
  #source: HistorySource | undefined;
  #joined: number;
  #socket: Duplex | undefined;
  #isStreaming = false;
  #settling: number | undefined;
  /** Answers wait for it already; it has joined when it has all up to there. */
  #joining: number | undefined;
  #isReleased = false;
  #since: number;
  #seq = 0;
  #syncedSeq = 0;
  #ackedSeq = 0;
  /** At which revision and when each of what is not confirmed was synced. */
  #sent: { readonly seq: number; readonly revision: number; readonly at: number }[] = [];
  #syncedRevision = 0;
  #confirmed = 0;
  #unsynced: Pending[] = [];
  #waiting: { readonly seq: number; readonly done: () => void } | undefined;
  #heardAt = 0;
  #cancelPing = (): void => undefined;

  constructor(deps: LeadStreamDeps, config: LeadConfig) {
    this.#deps = deps;
    this.#config = config;
    this.#joined = deps.joined.read();
    this.#since = deps.clock.now();
  }

  get state(): LeadState {
    const { generation, mode } = this.#config;
    return {
      generation,
      mode,
      isJoined: this.#isJoined,
      isConnected: this.#isStreaming,
      since: this.#since,
      revision: this.#syncedRevision,
      confirmed: this.#confirmed,
    };
  }

  /** False: what is here may not be shown yet, as it may be that somebody else leads by now. */
  get mayServe(): boolean {
    return !this.#isJoined || this.#isStreaming;
  }

  get #isJoined(): boolean {
    const { mode, generation } = this.#config;
    return mode === "stream" && this.#joined === generation;
  }

  get #isStrict(): boolean {
    return this.#isJoined || this.#joining !== undefined;
  }

  configure(config: LeadConfig): void {
    const before = this.#config;
    if (JSON.stringify(before) === JSON.stringify(config)) return;
    this.#config = config;
    if (before.generation !== config.generation || config.mode === "solo") this.#cut("it was told otherwise");
    this.#letGo();
    this.#deps.changed();
  }

  attach(source: HistorySource, revision: number): void {
    this.#source = source;
    this.#syncedRevision = revision;
  }

  committed(change: CommittedChange): void {
    this.#seq += 1;
    this.#unsynced.push({ seq: this.#seq, change });
  }

  gate(sync: Sync): Sync {
    return (done) => {
      const seq = this.#seq;
      sync((err) => {
        if (err !== null) done(err);
        else this.#synced(seq, () => done(null));
      });
    };
  }

  release(): void {
    this.#isReleased = true;
    this.#cut("the store is closed");
    this.#letGo();
  }

  /** A line to the standby; the one before is given up. */
  take(socket: Duplex): void {
    if (this.#config.mode !== "stream" || this.#source === undefined) {
      socket.destroy();
      return;
    }
    this.#cut("another line was opened");
    this.#socket = socket;
    const reader = new FrameReader();
    socket.on("error", () => socket.destroy());
    socket.on("close", () => {
      if (this.#socket === socket) this.#cut("the line was cut");
    });
    socket.on("data", (chunk: Buffer) => {
      if (this.#socket !== socket) return;
      try {
        for (const frame of reader.push(chunk)) this.#hear(socket, frame);
      } catch (err) {
        this.#cut(err instanceof Error ? err.message : String(err));
      }
    });
    this.#heardAt = this.#deps.clock.monotonic();
    this.#pingLater();
    const { generation } = this.#config;
    socket.write(encodeFrame({ type: "hello", generation, compacted: this.#source.compacted() }));
  }

  #hear(socket: Duplex, { head }: Frame): void {
    this.#heardAt = this.#deps.clock.monotonic();
    if (head.type === "position" && !this.#isStreaming) this.#catchUp(socket, head.revision, head.hash);
    else if (head.type === "ack") this.#acked(head.seq);
  }

  /** In one go: what is committed from now on follows as it happens. */
  #catchUp(socket: Duplex, revision: number, hash: number): void {
    const source = this.#source;
    if (source === undefined) return;
    const to = this.#syncedRevision;
    const compacted = source.compacted();
    const canGoOn =
      revision > 0 &&
      revision <= to &&
      revision >= compacted &&
      source.hash(revision, compacted) === hash >>> 0;
    socket.write(encodeFrame({ type: "begin", whole: !canGoOn }));
    const rows = canGoOn ? source.between(revision + 1, to) : source.all(to, compacted);
    for (const chunk of chunksOf(rows)) socket.write(encodeFrame({ type: "rows" }, chunk));
    const leases = source.leases().map(({ id, ttlSeconds }) => [String(id), ttlSeconds] as const);
    const seq = this.#syncedSeq;
    socket.write(encodeFrame({ type: "settle", seq, revision: to, compacted, leases }));
    this.#settling = seq;
    this.#deps.say(
      canGoOn ? `the standby is at revision ${revision} of ${to}` : `the standby gets all of it (${to})`,
    );
  }

  #synced(seq: number, done: () => void): void {
    this.#syncedSeq = seq;
    const at = this.#deps.clock.monotonic();
    while ((this.#unsynced[0]?.seq ?? Infinity) <= seq) {
      const pending = this.#unsynced.shift();
      if (pending === undefined) break;
      this.#syncedRevision = pending.change.revision;
      this.#sent.push({ seq: pending.seq, revision: pending.change.revision, at });
      this.#send(pending);
    }
    // Nobody asks for what is not confirmed where nobody confirms.
    if (!this.#isStrict && !this.#isStreaming && this.#settling === undefined) this.#sent = [];
    this.#waiting = { seq, done };
    this.#letGo();
  }

  #send({ seq, change }: Pending): void {
    const socket = this.#socket;
    // Before it has been told where to begin, it is told all of this with the rest.
    if (socket === undefined || (this.#settling === undefined && !this.#isStreaming)) return;
    const { revision, events, granted, revoked, compacted } = change;
    socket.write(
      encodeFrame(
        {
          type: "change",
          seq,
          revision,
          ...(granted.length === 0
            ? {}
            : { granted: granted.map(({ id, ttlSeconds }) => [String(id), ttlSeconds] as const) }),
          ...(revoked.length === 0 ? {} : { revoked: revoked.map(String) }),
          ...given({ compacted }),
        },
        events.map(({ kv }) => kv),
      ),
    );
    if (socket.writableLength > MOST_QUEUED_BYTES) this.#cut("it cannot keep up");
  }

  #acked(seq: number): void {
    if (this.#settling !== undefined && seq >= this.#settling) {
      this.#settling = undefined;
      this.#isStreaming = true;
      this.#since = this.#deps.clock.now();
      this.#joining = this.#syncedSeq;
      this.#deps.changed();
    }
    if (!this.#isStreaming) return;
    this.#ackedSeq = Math.max(this.#ackedSeq, seq);
    this.#confirmed = Math.max(this.#confirmed, this.#revisionAt(seq));
    this.#sent = this.#sent.filter((each) => each.seq > seq);
    if (this.#sent.length === 0) this.#confirmed = this.#syncedRevision;
    if (this.#joining !== undefined && seq >= this.#joining) this.#join();
    this.#letGo();
  }

  /** All that was ever answered is there. */
  #join(): void {
    const { generation } = this.#config;
    this.#joining = undefined;
    if (this.#isJoined) return;
    this.#deps.joined.write(generation);
    this.#joined = generation;
    this.#deps.say(`the standby has joined (generation ${generation})`);
    this.#deps.changed();
  }

  #revisionAt(seq: number): number {
    return this.#sent.findLast((each) => each.seq <= seq)?.revision ?? 0;
  }

  #letGo(): void {
    const waiting = this.#waiting;
    if (waiting === undefined) return;
    const mustWait = this.#isStrict && !this.#isReleased && this.#ackedSeq < waiting.seq;
    if (mustWait && !this.#isWithinBound()) return;
    this.#waiting = undefined;
    waiting.done();
  }

  #isWithinBound(): boolean {
    const { boundMs } = this.#config;
    const oldest = this.#sent[0];
    return boundMs > 0 && (oldest === undefined || this.#deps.clock.monotonic() - oldest.at < boundMs);
  }

  #pingLater(): void {
    const { clock } = this.#deps;
    this.#cancelPing();
    this.#cancelPing = clock.after(PING_MS, () => {
      if (this.#socket === undefined) return;
      if (clock.monotonic() - this.#heardAt > SILENT_MS) {
        this.#cut("it confirms nothing");
        return;
      }
      if (this.#isStreaming) this.#socket.write(encodeFrame({ type: "ping", seq: this.#syncedSeq }));
      this.#pingLater();
    });
  }

  #cut(why: string): void {
    const socket = this.#socket;
    if (socket === undefined) return;
    this.#socket = undefined;
    this.#cancelPing();
    this.#settling = undefined;
    this.#joining = undefined;
    const was = this.#isStreaming;
    this.#isStreaming = false;
    socket.destroy();
    if (was) this.#since = this.#deps.clock.now();
    this.#deps.say(`the standby is away: ${why}`);
    this.#letGo();
    this.#deps.changed();
  }
}

function* chunksOf(rows: Iterable<KeyValue>): Generator<readonly KeyValue[]> {
  let chunk: KeyValue[] = [];
  let bytes = 0;
  for (const row of rows) {
    chunk.push(row);
    bytes += row.key.length + row.value.length;
    if (bytes < CHUNK_BYTES && chunk.length < 1_000) continue;
    yield chunk;
    [chunk, bytes] = [[], 0];
  }
  if (chunk.length > 0) yield chunk;
}
