// For how long things about standbys have been as they are, by this server's own clock.
import { leaseTimes } from "@gpve/domain/ha/node-lease.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { SeenStandby } from "@gpve/domain/vcluster/standby/standby-plan.ts";
import { keyOf, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { runtimeOn } from "../replicas/replica-nodes.ts";

/** What is stopped, or is in the midst of work that its node alone can end, waits for its node. */
const AT_REST = new Set([
  "Stopped",
  "Stopping",
  "Failed",
  "Terminating",
  "Upgrading",
  "Migrating",
  "Pending",
]);

/** What is known of nodes beside what their agents say. */
export interface SignsOfLife {
  /** For how long its fence process has given no sign of life; undefined = it never has. */
  silentMs(node: string): number | undefined;
  /** Its agent has said that it will be back. */
  isAwaited(node: string): boolean;
}

export class StandbySight {
  readonly #board: NodeBoard;
  readonly #clock: Clock;
  readonly #signs: SignsOfLife;
  readonly #since = new Map<string, { readonly value: string; readonly at: number }>();
  /** By node: the standbys that it tells of, and whether it hears what they follow. */
  readonly #rows = new Map<string, ReadonlyMap<string, boolean>>();

  constructor(board: NodeBoard, clock: Clock, signs: SignsOfLife) {
    this.#board = board;
    this.#clock = clock;
    this.#signs = signs;
  }

  /** Whoever begins to look begins to wait. */
  forget(): void {
    this.#since.clear();
  }

  /** All of them are looked at anew. */
  refresh(): void {
    this.#rows.clear();
  }

  /** Nodes have just been told of it. */
  said(key: string): void {
    this.#since.delete(`said ${key}`);
  }

  /** Nobody follows it, nor could: it sleeps, or there is no other node. Most of many are so, and are looked at every second. */
  isAtEase(record: VirtualClusterRecord): boolean {
    const { node, standby, recovered, abandoned } = record;
    if (standby !== undefined || recovered !== undefined || abandoned !== undefined) return false;
    if (this.#board.list().length < 2) return true;
    return this.#isOnline(node) && runtimeOn(this.#board, node, keyOf(record))?.power === "cold";
  }

  of(record: VirtualClusterRecord, spares: readonly string[]): SeenStandby {
    const { node, standby } = record;
    const key = keyOf(record);
    const isOnline = this.#isOnline(node);
    const isStandbyOnline = standby !== undefined && this.#isOnline(standby.node);
    const runtime = runtimeOn(this.#board, node, key);
    const told = runtime?.standby;
    const row = isStandbyOnline ? this.#row(standby.node, record) : undefined;
    const shown = told === undefined ? "" : `${told.generation} ${told.isJoined} ${told.isConnected}`;
    return {
      node,
      isOnline,
      awayMs: this.#for(`node ${key} ${node}`, isOnline ? "online" : `away, fed: ${row === true}`),
      isSilent: !isOnline && this.#isSilent(node),
      isUp: runtime?.phase === "Running" && runtime.power !== "cold",
      isAtRest: runtime !== undefined && AT_REST.has(runtime.phase),
      told,
      toldMs: this.#for(`told ${key}`, `${node} ${shown}`),
      standby,
      isStandbyOnline,
      isStandbyThere: row !== undefined,
      isFed: row === true,
      standbyAwayMs: this.#for(`standby ${key}`, `${standby?.node} ${isStandbyOnline}`),
      saidMs: this.#for(`said ${key}`, String(standby?.generation)),
      spares,
    };
  }

  /** Whether it is fed; undefined = the node tells of none. */
  #row(node: string, record: VirtualClusterRecord): boolean | undefined {
    const rows = this.#board.get(node)?.report?.standbys ?? [];
    const known =
      this.#rows.get(node) ??
      new Map(rows.map(({ name, tenant, isFed = false }) => [`${name} ${tenant}`, isFed]));
    this.#rows.set(node, known);
    return known.get(`${keyOf(record)} ${record.tenant}`);
  }

  /** Neither its agent nor its fence process, which outlives that: where guests under HA would be started elsewhere. */
  #isSilent(node: string): boolean {
    const silentMs = this.#signs.silentMs(node);
    return silentMs !== undefined && silentMs >= leaseTimes.leaseMs && !this.#signs.isAwaited(node);
  }

  #isOnline(node: string): boolean {
    return this.#board.get(node)?.health === "online";
  }

  #for(key: string, value: string): number {
    const now = this.#clock.monotonic();
    const before = this.#since.get(key);
    if (before?.value === value) return now - before.at;
    this.#since.set(key, { value, at: now });
    return 0;
  }
}
