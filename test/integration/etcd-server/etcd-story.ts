// A random but repeatable story of raw etcd requests: every option, good and bad, on a few keys.
import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  CompareSchema,
  DeleteRangeRequestSchema,
  PutRequestSchema,
  RangeRequestSchema,
  RequestOpSchema,
  TxnRequestSchema,
} from "@gpve/store/gen/proto/etcdserverpb/rpc_pb.ts";
import type { EtcdClient } from "@gpve/store/testing/etcd-client.ts";

type Range = MessageInitShape<typeof RangeRequestSchema>;
type Put = MessageInitShape<typeof PutRequestSchema>;
type Delete = MessageInitShape<typeof DeleteRangeRequestSchema>;
type Compare = MessageInitShape<typeof CompareSchema>;
type Op = MessageInitShape<typeof RequestOpSchema>;
type Txn = MessageInitShape<typeof TxnRequestSchema>;

export interface Act {
  readonly name: string;
  readonly request: unknown;
  readonly run: (client: EtcdClient) => Promise<object>;
}

/** Twelve keys at most: etcd sorts so few in a stable way, so that equal ones have an order to compare. */
const LETTERS = [0x00, 0x61, 0xff];
const ODD = [0n, -1n, 1n, 2n];

export class EtcdStory {
  readonly leases = [1_001n, 1_002n, 1_003n];
  #state: number;
  /** A put that keeps what an earlier operation deleted to the end ends the etcd program: no step has both. */
  #wide = false;

  constructor(seed: number) {
    this.#state = seed;
  }

  step(revision: number): Act {
    this.#wide = this.#chance(50);
    const dice = this.#below(100);
    if (dice < 30) return act("txn", this.txn(revision, 0), (client, request) => client.kv.txn(request));
    if (dice < 60) return act("range", this.range(revision), (client, request) => client.kv.range(request));
    if (dice < 75) return act("put", this.put(), (client, request) => client.kv.put(request));
    if (dice < 82) {
      return act("delete", this.delete(), (client, request) => client.kv.deleteRange(request));
    }
    if (dice < 87) {
      const request = { revision: BigInt(1 + this.#below(revision + 3)), physical: this.#chance(50) };
      return act("compact", request, (client) => client.kv.compact(request));
    }
    return this.#lease();
  }

  range(revision: number): Range {
    return {
      ...this.#span(),
      ...(this.#chance(30) ? { limit: BigInt(this.#below(5) - 1) } : {}),
      ...(this.#chance(40) ? { revision: BigInt(this.#below(revision + 3)) } : {}),
      ...(this.#chance(30) ? { sortOrder: this.#below(3), sortTarget: this.#below(5) } : {}),
      ...(this.#chance(15) ? { keysOnly: true } : {}),
      ...(this.#chance(10) ? { countOnly: true } : {}),
      ...(this.#chance(10) ? { serializable: true } : {}),
      ...(this.#chance(10) ? { minModRevision: this.#revision(revision) } : {}),
      ...(this.#chance(10) ? { maxModRevision: this.#revision(revision) } : {}),
      ...(this.#chance(10) ? { minCreateRevision: this.#revision(revision) } : {}),
      ...(this.#chance(10) ? { maxCreateRevision: this.#revision(revision) } : {}),
    };
  }

  put(): Put {
    const ignoreValue = !this.#wide && this.#chance(20);
    const ignoreLease = !this.#wide && this.#chance(20);
    return {
      key: this.#key(),
      ...(ignoreValue && this.#chance(80) ? {} : { value: this.#value() }),
      ...(this.#chance(25) ? { lease: [...this.leases, 999n][this.#below(4)] ?? 0n } : {}),
      ...(this.#chance(30) ? { prevKv: true } : {}),
      ...(ignoreValue ? { ignoreValue } : {}),
      ...(ignoreLease ? { ignoreLease } : {}),
    };
  }

  delete(): Delete {
    const span = this.#wide && this.#chance(50) ? this.#span() : { key: this.#key() };
    return { ...span, ...(this.#chance(50) ? { prevKv: true } : {}) };
  }

  txn(revision: number, depth: number): Txn {
    const many = <T>(limit: number, make: () => T): T[] => Array.from({ length: this.#below(limit) }, make);
    return {
      compare: many(3, () => this.#compare(revision)),
      success: many(4, () => this.#op(revision, depth)),
      failure: many(3, () => this.#op(revision, depth)),
    };
  }

  #lease(): Act {
    const id = [...this.leases, 999n][this.#below(4)] ?? 0n;
    switch (this.#below(5)) {
      case 0:
        return act("grant", { id, ttl: 3_600n }, (client, request) => client.lease.leaseGrant(request));
      case 1:
        return act("grant too long", { id: 7n, ttl: 9_000_000_001n }, (client, request) =>
          client.lease.leaseGrant(request),
        );
      case 2:
        return act("revoke", { id }, (client, request) => client.lease.leaseRevoke(request));
      case 3:
        return act("leases", {}, async (client) => {
          const answer = await client.lease.leaseLeases({});
          return {
            ...answer,
            leases: answer.leases.map(({ id: known }) => Number(known)).toSorted((a, b) => a - b),
          };
        });
      default:
        return act("time to live", { id, keys: this.#chance(70) }, async (client, request) => {
          const answer = await client.lease.leaseTimeToLive(request);
          // A second may pass between the two.
          const ttl = answer.ttl > 3_500n ? 3_600n : answer.ttl;
          return {
            ...answer,
            ttl,
            keys: answer.keys.map((key) => Buffer.from(key).toString("hex")).toSorted(),
          };
        });
    }
  }

  #op(revision: number, depth: number): Op {
    const dice = this.#below(100);
    if (dice < 50) return { request: { case: "requestPut", value: this.put() } };
    if (dice < 70) return { request: { case: "requestDeleteRange", value: this.delete() } };
    if (dice < 90 || depth > 2) return { request: { case: "requestRange", value: this.range(revision) } };
    return { request: { case: "requestTxn", value: this.txn(revision, depth + 1) } };
  }

  #compare(revision: number): Compare {
    const target = this.#below(5);
    const common = { ...this.#span(), result: this.#below(4), target };
    // Now and then a union that does not fit its target, or none.
    switch (this.#chance(8) ? this.#below(6) : target) {
      case 0:
        return { ...common, targetUnion: { case: "version", value: BigInt(this.#below(4)) } };
      case 1:
        return { ...common, targetUnion: { case: "createRevision", value: this.#revision(revision) } };
      case 2:
        return { ...common, targetUnion: { case: "modRevision", value: this.#revision(revision) } };
      case 3:
        return { ...common, targetUnion: { case: "value", value: this.#value() } };
      case 4:
        return { ...common, targetUnion: { case: "lease", value: this.leases[this.#below(4)] ?? 0n } };
      default:
        return common;
    }
  }

  #revision(revision: number): bigint {
    return this.#chance(10) ? (ODD[this.#below(ODD.length)] ?? 0n) : BigInt(this.#below(revision + 2));
  }

  #key(): Uint8Array {
    if (this.#chance(1)) return new Uint8Array(0);
    return Uint8Array.from({ length: 1 + this.#below(2) }, () => LETTERS[this.#below(3)] ?? 0);
  }

  #span(): { key: Uint8Array; rangeEnd?: Uint8Array } {
    const key = this.#key();
    const dice = this.#below(10);
    if (dice < 4) return { key };
    return { key, rangeEnd: dice < 7 ? Uint8Array.of(0) : this.#key() };
  }

  #value(): Uint8Array {
    return Buffer.from(["", "a", "b", "longer"][this.#below(4)] ?? "");
  }

  #chance(percent: number): boolean {
    return this.#below(100) < percent;
  }

  /** Park and Miller: enough for a story, and the same everywhere. */
  #below(limit: number): number {
    this.#state = (this.#state * 48_271 + 11) % 2_147_483_647;
    return this.#state % limit;
  }
}

function act<T>(name: string, request: T, run: (client: EtcdClient, request: T) => Promise<object>): Act {
  return { name, request, run: (client) => run(client, request) };
}
