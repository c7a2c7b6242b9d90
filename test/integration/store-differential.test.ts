// The same random story told to SQLite and to a real etcd: every answer, error, revision and event must be equal.
import { describe, expect, it } from "vitest";
import { isAppError } from "@gpve/contracts/errors.ts";
import { TO_THE_END, utf8 } from "@gpve/store/keys.ts";
import type {
  Bytes,
  Compare,
  CompareResult,
  Op,
  RangeRequest,
  Store,
  StoreEvent,
  TxnRequest,
} from "@gpve/store/port.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { openWatch } from "@gpve/store/testing/conformance.ts";
import { etcdMissing, startEtcd } from "@gpve/store/testing/etcd-cluster.ts";

if (etcdMissing !== undefined) console.error(`SKIPPED store-differential: ${etcdMissing}`);

const STEPS = 1_500;
/** Longer than any key of the story: the last event to wait for. */
const END = utf8("end");
const FIRST = utf8("first");

const put = (key: Bytes): TxnRequest => ({ compare: [], success: [{ type: "put", key, value: utf8("") }] });

describe.skipIf(etcdMissing !== undefined)("SQLite and etcd", () => {
  it("cannot be told apart by any answer, error, revision or event", async () => {
    const seed = Number(process.env["GPVE_SEED"] ?? Date.now() % 1_000_000);
    console.log(`differential: GPVE_SEED=${seed}`);
    const cluster = await startEtcd({ members: 1 });
    const etcd = cluster.open();
    const sqlite = openSqliteStore({ path: ":memory:" });
    try {
      const story = new Story(seed);
      const watches = [sqlite, etcd].map((store) =>
        openWatch(store, { key: Uint8Array.of(0), end: TO_THE_END, startRevision: 1, prevKv: true }),
      );
      // The story compacts: whoever has not begun to listen by then may rightly be told of a gap.
      for (const store of [sqlite, etcd]) await store.txn(put(FIRST));
      const heard = await Promise.all(watches.map((watch) => watch.events(1)));
      const telling = watches.map(async (watch, at) => {
        const seen: StoreEvent[] = [...(heard[at] ?? [])];
        while (seen.at(-1)?.kv.key.length !== END.length) seen.push(...(await watch.events(1)));
        return seen;
      });
      let revision = await etcd.revision();
      let compacted = 0;
      expect(await sqlite.revision()).toBe(revision);
      for (const id of story.leases) {
        for (const store of [sqlite, etcd]) await store.leaseGrant(3_600, id);
      }
      for (let step = 0; step < STEPS; step++) {
        const act = story.step(revision, compacted);
        const [ours, theirs] = await Promise.all([attempt(sqlite, act), attempt(etcd, act)]);
        expect(ours, `step ${step}: ${act.name}`).toEqual(theirs);
        if (act.name.startsWith("compact") && ours === "ok") compacted = Number(act.name.split(" ")[1]);
        revision = await sqlite.revision();
      }
      expect(await etcd.revision()).toBe(revision);
      const everything = { key: Uint8Array.of(0), end: TO_THE_END };
      expect(await sqlite.range(everything)).toEqual(await etcd.range(everything));
      for (const store of [sqlite, etcd]) await store.txn(put(END));
      const [ours = [], theirs = []] = await Promise.all(telling);
      expect(ours.length).toBe(theirs.length);
      ours.forEach((event, index) => {
        const other = theirs[index];
        // What came before may have been compacted by the time a member looks it up.
        const compared = other?.prevKv === undefined ? { type: event.type, kv: event.kv } : event;
        expect(compared, `event ${index}`).toEqual(other);
      });
      console.log(`differential: ${STEPS} steps, ${revision} revisions, ${ours.length} events, all equal`);
      for (const watch of watches) await watch.stop();
    } finally {
      await etcd.close();
      await sqlite.close();
      await cluster.stop();
    }
  });
});

interface Act {
  readonly name: string;
  readonly run: (store: Store) => Promise<unknown>;
}

async function attempt(store: Store, act: Act): Promise<unknown> {
  try {
    return (await act.run(store)) ?? "ok";
  } catch (err) {
    return isAppError(err) ? `refused: ${err.code}` : Promise.reject(err);
  }
}

const results: readonly CompareResult[] = ["equal", "greater", "less", "notEqual"];

class Story {
  readonly leases = [1_001n, 1_002n, 1_003n];
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  step(revision: number, compacted: number): Act {
    const dice = this.#below(100);
    if (dice < 60) {
      const request = this.#txn(revision, 0);
      return { name: `txn ${describeTxn(request)}`, run: (store) => store.txn(request) };
    }
    if (dice < 90) {
      const request = this.#range(revision);
      return { name: `range ${JSON.stringify(request)}`, run: (store) => store.range(request) };
    }
    if (dice < 93) {
      const target = Math.max(1, compacted) + this.#below(Math.max(1, revision - compacted + 3));
      return { name: `compact ${target}`, run: (store) => store.compact(target) };
    }
    const id = this.leases[this.#below(this.leases.length)] ?? 0n;
    if (dice < 97) {
      return {
        name: `keys of lease ${id}`,
        run: async (store) => {
          const { keys } = await store.leaseStatus(id);
          return keys.map((key) => Buffer.from(key).toString("hex")).toSorted();
        },
      };
    }
    return {
      name: `lease ${id} ends and begins`,
      run: async (store) => {
        await store.leaseRevoke(id);
        await store.leaseGrant(3_600, id);
      },
    };
  }

  /** Park and Miller: enough for a story, and the same everywhere. */
  #below(limit: number): number {
    this.#state = (this.#state * 48_271 + 11) % 2_147_483_647;
    return this.#state % limit;
  }

  #chance(percent: number): boolean {
    return this.#below(100) < percent;
  }

  #key(): Bytes {
    if (this.#chance(1)) return new Uint8Array(0);
    const length = 1 + this.#below(2);
    return Uint8Array.from({ length }, () => [0x00, 0x61, 0x62, 0x63, 0xff][this.#below(5)] ?? 0);
  }

  #span(): { key: Bytes; end?: Bytes } {
    const key = this.#key();
    const dice = this.#below(10);
    if (dice < 4) return { key };
    return { key, end: dice < 6 ? TO_THE_END : this.#nonEmpty() };
  }

  #nonEmpty(): Bytes {
    const key = this.#key();
    return key.length === 0 ? Uint8Array.of(0x62) : key;
  }

  #range(revision: number): RangeRequest {
    return {
      ...this.#span(),
      ...(this.#chance(30) ? { limit: this.#below(4) } : {}),
      ...(this.#chance(40) ? { revision: this.#below(revision + 3) } : {}),
      ...(this.#chance(20) ? { keysOnly: true } : {}),
      ...(this.#chance(10) ? { countOnly: true } : {}),
      ...(this.#chance(20) ? { descending: true } : {}),
      ...(this.#chance(15) ? { minModRevision: this.#below(revision + 2) } : {}),
    };
  }

  #compare(revision: number): Compare {
    const common = { ...this.#span(), result: results[this.#below(4)] ?? "equal" };
    switch (this.#below(5)) {
      case 0:
        return { ...common, target: "version", version: this.#below(4) };
      case 1:
        return { ...common, target: "createRevision", createRevision: this.#below(revision + 2) };
      case 2:
        return { ...common, target: "modRevision", modRevision: this.#below(revision + 2) };
      case 3:
        return { ...common, target: "lease", lease: this.leases[this.#below(4)] ?? 0n };
      default:
        return { ...common, target: "value", value: this.#value() };
    }
  }

  #value(): Bytes {
    return utf8(["", "a", "b", "longer"][this.#below(4)] ?? "");
  }

  #op(revision: number, depth: number): Op {
    const dice = this.#below(100);
    if (dice < 50) {
      const keepValue = this.#chance(8);
      return {
        type: "put",
        key: this.#key(),
        value: keepValue && this.#chance(80) ? utf8("") : this.#value(),
        ...(this.#chance(25) ? { lease: [...this.leases, 999n][this.#below(4)] ?? 0n } : {}),
        ...(this.#chance(30) ? { prevKv: true } : {}),
        ...(keepValue ? { ignoreValue: true } : {}),
        ...(this.#chance(8) ? { ignoreLease: true } : {}),
      };
    }
    if (dice < 70) {
      const span = this.#chance(60) ? { key: this.#key() } : this.#span();
      return { type: "delete", ...span, ...(this.#chance(50) ? { prevKv: true } : {}) };
    }
    if (dice < 90 || depth > 2) return { type: "range", ...this.#range(revision) };
    return { type: "txn", ...this.#txn(revision, depth + 1) };
  }

  #txn(revision: number, depth: number): TxnRequest {
    const many = <T>(limit: number, make: () => T): T[] => Array.from({ length: this.#below(limit) }, make);
    return {
      compare: many(3, () => this.#compare(revision)),
      success: many(4, () => this.#op(revision, depth)),
      failure: many(3, () => this.#op(revision, depth)),
    };
  }
}

function describeTxn(request: TxnRequest): string {
  return JSON.stringify(request, (_key, value: unknown) => {
    if (value instanceof Uint8Array) return `x${Buffer.from(value).toString("hex")}`;
    return typeof value === "bigint" ? String(value) : value;
  });
}
