// The servers' memory of all nodes: records say which exist, reports and heartbeats say how they are.
//
//   unknown --report--> online --silence--> offline --report--> online
//   unknown --silence--> offline
import type { NodeRecord } from "@gpve/domain/node/record.ts";
import { given } from "@gpve/contracts/given.ts";
import type {
  AgentSoftware,
  NodeBoard,
  NodeFacts,
  NodeHealth,
  NodeReport,
  NodeView,
} from "@gpve/domain/node/runtime.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Collection } from "@gpve/store/records/port.ts";

/** No sign of life for this long makes a node offline. */
export const OFFLINE_AFTER_MS = 6_000;
const CHECK_EVERY_MS = 500;
/** An agent that said goodbye is waited for that long: it is being restarted or upgraded. */
export const AWAITED_MS = 60_000;

export type BoardListener = (view: NodeView, previous: NodeView | undefined) => void;

interface Row {
  health: NodeHealth;
  lastSeen: number;
  /** Monotonic: immune to a wall clock that jumps. */
  aliveAt: number;
  /** Monotonic; its agent has said that it stops, and is expected back until then. */
  awaitedUntil: number;
  software: AgentSoftware | undefined;
  report: NodeReport | undefined;
  facts: NodeFacts | undefined;
  view: NodeView | undefined;
}

export interface MemoryNodeBoardDeps {
  readonly clock: Clock;
  readonly nodes: Collection<NodeRecord>;
  readonly offlineAfterMs?: number;
}

export class MemoryNodeBoard implements NodeBoard {
  readonly #clock: Clock;
  readonly #nodes: Collection<NodeRecord>;
  readonly #offlineAfterMs: number;
  readonly #rows = new Map<string, Row>();
  readonly #listeners = new Set<BoardListener>();
  #generation = 1;
  #list: readonly NodeView[] | undefined;

  constructor(deps: MemoryNodeBoardDeps) {
    this.#clock = deps.clock;
    this.#nodes = deps.nodes;
    this.#offlineAfterMs = deps.offlineAfterMs ?? OFFLINE_AFTER_MS;
    for (const { id } of this.#nodes.list()) this.#row(id);
  }

  /** Follows the records and the clock until the returned function is called. */
  start(): () => void {
    const unsubscribe = this.#nodes.onChange((id, entry) => {
      const previous = this.#rows.get(id)?.view;
      if (entry === undefined) this.#rows.delete(id);
      else this.#row(id).view = undefined;
      this.#changed(id, previous);
    });
    let cancel = (): void => undefined;
    const tick = (): void => {
      this.#checkSilence();
      cancel = this.#clock.after(CHECK_EVERY_MS, tick);
    };
    tick();
    return () => {
      unsubscribe();
      cancel();
    };
  }

  list(): readonly NodeView[] {
    this.#list ??= this.#nodes.list().map((entry) => this.#viewOf(entry.value));
    return this.#list;
  }

  get(node: string): NodeView | undefined {
    const entry = this.#nodes.get(node);
    return entry === undefined ? undefined : this.#viewOf(entry.value);
  }

  generation(): number {
    return this.#generation;
  }

  onChange(listener: BoardListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** A sign of life. Ignored for nodes the cluster does not know. */
  heartbeat(node: string): void {
    if (this.#nodes.get(node) !== undefined) this.#alive(node);
  }

  accept(report: NodeReport): void {
    if (this.#nodes.get(report.node) === undefined) return;
    const row = this.#row(report.node);
    const previous = row.view;
    row.report = report;
    if (report.facts !== undefined) row.facts = report.facts;
    row.view = undefined;
    this.#touch(row);
    this.#changed(report.node, previous);
  }

  /** Its agent stops and means to be back. */
  goodbye(node: string): void {
    if (this.#nodes.get(node) !== undefined)
      this.#row(node).awaitedUntil = this.#clock.monotonic() + AWAITED_MS;
  }

  /** Its agent is there again. */
  hello(node: string, software: AgentSoftware): void {
    if (this.#nodes.get(node) === undefined) return;
    const row = this.#row(node);
    row.awaitedUntil = 0;
    row.software = software;
    this.#alive(node);
  }

  /** Its agent is there, and cannot be worked with. */
  refuse(node: string, software: AgentSoftware): void {
    if (this.#nodes.get(node) === undefined) return;
    const row = this.#row(node);
    const previous = row.view;
    if (row.software?.refused === software.refused && row.software?.version === software.version) return;
    row.software = software;
    row.view = undefined;
    this.#changed(node, previous);
  }

  /** Whether its agent is away for a moment only. */
  isAwaited(node: string): boolean {
    return (this.#rows.get(node)?.awaitedUntil ?? 0) > this.#clock.monotonic();
  }

  wantsFacts(node: string): boolean {
    return this.#rows.get(node)?.facts === undefined;
  }

  /** Its agent said hello to this server's predecessor, if to any: what it speaks is not known here. */
  wantsHello(node: string): boolean {
    return this.#rows.get(node)?.software === undefined;
  }

  #alive(node: string): void {
    const row = this.#row(node);
    const previous = row.view;
    const before = row.health;
    this.#touch(row);
    row.view = undefined;
    this.#list = undefined;
    if (before !== row.health) this.#changed(node, previous);
  }

  #touch(row: Row): void {
    row.lastSeen = this.#clock.now();
    row.aliveAt = this.#clock.monotonic();
    row.health = "online";
  }

  #checkSilence(): void {
    const now = this.#clock.monotonic();
    for (const [node, row] of this.#rows) {
      if (row.health === "offline" || now - row.aliveAt < this.#offlineAfterMs) continue;
      const previous = row.view;
      row.health = "offline";
      row.view = undefined;
      this.#changed(node, previous);
    }
  }

  #changed(node: string, previous: NodeView | undefined): void {
    this.#generation++;
    this.#list = undefined;
    const view = this.get(node);
    if (view === undefined) return;
    for (const listener of this.#listeners) listener(view, previous);
  }

  #row(node: string): Row {
    let row = this.#rows.get(node);
    if (row === undefined) {
      row = {
        health: "unknown",
        lastSeen: 0,
        aliveAt: this.#clock.monotonic(),
        awaitedUntil: 0,
        software: undefined,
        report: undefined,
        facts: undefined,
        view: undefined,
      };
      this.#rows.set(node, row);
    }
    return row;
  }

  #viewOf(record: NodeRecord): NodeView {
    const row = this.#row(record.name);
    row.view ??= {
      node: record.name,
      nodeid: record.nodeid,
      health: row.health,
      address: record.address,
      lastSeen: row.lastSeen,
      certFingerprint: record.certFingerprint,
      report: row.report,
      facts: row.facts,
      ...given({ software: row.software }),
    };
    return row.view;
  }
}
