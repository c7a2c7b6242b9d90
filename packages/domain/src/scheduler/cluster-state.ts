// All nodes and what is placed on them, in columns: a decision looks at every node, thousands of times a second. Changed
// in place, one guest or node at a time; what was worked out for a rule is kept and follows the changes.
import { parseLabelSelector, type Selector } from "@gpve/contracts/v1/selector.ts";
import { bucketOf, Buckets, bucketsOf, selects, type Labels } from "./label-buckets.ts";
import { HOSTNAME_LABEL, type GuestTerm, type PlacedGuest, type SchedulerNode } from "./model.ts";
import { labelOf, levelsOf, nestedValue, topologyBy, type Topology } from "./topology.ts";

/** How many guests that a selector finds are in each place. */
export interface PlaceCounts {
  readonly topology: Topology;
  readonly counts: Int32Array;
  total: number;
}

interface Tracked extends PlaceCounts {
  readonly selector: Selector;
  readonly bucket: string;
}

/** One rule of being apart, and who has it. */
export interface AntiTerm {
  readonly key: string;
  readonly guests: string;
  readonly topologyKey: string;
  readonly selector: Selector;
  readonly ids: Set<string>;
  /** By place. */
  counts: Int32Array | undefined;
}

interface StorageRoom {
  readonly isShared: boolean;
  /** By node, as they report it; -1 = it has no such storage. */
  readonly avail: Float64Array;
  readonly left: Float64Array;
}

/** Bytes of volumes that shall be made on a storage. */
interface Promised {
  readonly onNode: Float64Array;
  inAll: number;
}

/** Answers to which nodes could take a request of some shape, kept until a node changes. */
const MOST_KEPT = 256;

export class ClusterState {
  #nodes: SchedulerNode[] = [];
  #index = new Map<string, number>();
  readonly #guests = new Map<string, PlacedGuest>();
  #on: Set<string>[] = [];
  #topologies = new Map<string, Topology>();
  #levels: readonly string[] | undefined;
  readonly #tracked = new Map<string, Tracked>();
  /** By a label that must be there, so that a guest is not compared with every rule there is. */
  readonly #trackedBy = new Buckets<Tracked>();
  readonly #antiBy = new Buckets<AntiTerm>();
  readonly #labelled = new Buckets<PlacedGuest>();
  readonly #rooms = new Map<string, StorageRoom>();
  #promised = new Map<string, Promised>();
  readonly #memo = new Map<string, unknown>();
  readonly #anti = new Map<string, AntiTerm>();

  /** What nodes have, what counts against it, and what counts where they are compared. */
  cpu = new Float64Array(0);
  memory = new Float64Array(0);
  cpuUsed = new Float64Array(0);
  memoryUsed = new Float64Array(0);
  gpusUsed = new Float64Array(0);
  cpuDefined = new Float64Array(0);
  memoryDefined = new Float64Array(0);

  constructor(nodes: readonly SchedulerNode[] = [], guests: Iterable<PlacedGuest> = []) {
    this.setNodes(nodes);
    for (const guest of guests) this.place(guest);
  }

  get nodes(): readonly SchedulerNode[] {
    return this.#nodes;
  }

  indexOf(node: string): number | undefined {
    return this.#index.get(node);
  }

  guest(id: string): PlacedGuest | undefined {
    return this.#guests.get(id);
  }

  guests(): Iterable<PlacedGuest> {
    return this.#guests.values();
  }

  /** Rules of being apart, of guests that are there, about one with these labels. */
  antiTermsAbout(labels: Labels): readonly AntiTerm[] {
    return bucketsOf(labels).flatMap((bucket) =>
      [...this.#antiBy.get(bucket)].filter(({ selector }) => selects(selector, labels)),
    );
  }

  holders(term: AntiTerm): { readonly topology: Topology; readonly counts: Int32Array } {
    const topology = this.topology(term.topologyKey);
    if (term.counts === undefined) {
      term.counts = new Int32Array(topology.places.length);
      for (const id of term.ids) this.#countHolder(term, this.#guests.get(id)?.node ?? "", 1);
    }
    return { topology, counts: term.counts };
  }

  guestsOn(node: number): readonly PlacedGuest[] {
    return [...(this.#on[node] ?? [])].flatMap((id) => this.#guests.get(id) ?? []);
  }

  guestCount(node: number): number {
    return this.#on[node]?.size ?? 0;
  }

  /** To try things on. */
  clone(): ClusterState {
    return new ClusterState(this.#nodes, this.#guests.values());
  }

  /** All nodes anew; guests stay where they are, also those whose node is not there. */
  setNodes(nodes: readonly SchedulerNode[]): void {
    this.#nodes = nodes.toSorted((a, b) => (a.name < b.name ? -1 : Number(a.name > b.name)));
    this.#index = new Map(this.#nodes.map(({ name }, at) => [name, at]));
    this.#on = this.#nodes.map(() => new Set());
    this.#promised = new Map();
    const column = (): Float64Array<ArrayBuffer> => new Float64Array(this.#nodes.length);
    this.cpu = column();
    this.memory = column();
    this.cpuUsed = column();
    this.memoryUsed = column();
    this.gpusUsed = column();
    this.cpuDefined = column();
    this.memoryDefined = column();
    for (const at of this.#nodes.keys()) this.#capacity(at);
    this.#forget();
    for (const guest of this.#guests.values()) this.#add(guest, 1);
  }

  /** A node that is there already. What only its storages' room changed keeps what is known of its kind. */
  updateNode(node: SchedulerNode, options: { readonly sameKind: boolean }): void {
    const at = this.#index.get(node.name);
    if (at === undefined) throw new RangeError(`node ${node.name} is not in the state`);
    this.#nodes[at] = node;
    this.#capacity(at);
    this.#rooms.clear();
    if (!options.sameKind) this.#forget();
  }

  /** Puts it there, from wherever it was. */
  place(guest: PlacedGuest): void {
    this.remove(guest.request.id);
    this.#guests.set(guest.request.id, guest);
    for (const bucket of bucketsOf(guest.request.labels)) this.#labelled.add(bucket, guest);
    this.#add(guest, 1);
    for (const term of guest.request.rules.antiAffinity?.required ?? []) {
      const found = this.#antiTerm(term);
      found.ids.add(guest.request.id);
      this.#countHolder(found, guest.node, 1);
    }
  }

  remove(id: string): void {
    const guest = this.#guests.get(id);
    if (guest === undefined) return;
    this.#add(guest, -1);
    this.#guests.delete(id);
    for (const bucket of bucketsOf(guest.request.labels)) this.#labelled.delete(bucket, guest);
    for (const term of guest.request.rules.antiAffinity?.required ?? []) {
      const found = this.#antiTerm(term);
      found.ids.delete(id);
      this.#countHolder(found, guest.node, -1);
      if (found.ids.size > 0) continue;
      this.#anti.delete(found.key);
      this.#antiBy.delete(bucketOf(found.selector), found);
    }
  }

  /** Bytes left on a storage, without what is promised; by node; -1 = it has no such storage. */
  storageRoom(storage: string): Float64Array {
    let found = this.#rooms.get(storage);
    if (found === undefined) {
      const isShared = this.#nodes.some(({ storages }) => storages[storage]?.shared === true);
      const avail = Float64Array.from(this.#nodes, ({ storages }) => storages[storage]?.availBytes ?? -1);
      found = { isShared, avail, left: new Float64Array(avail.length) };
      this.#rooms.set(storage, found);
      for (let at = 0; at < avail.length; at++) this.#leave(found, at, this.#promised.get(storage));
    }
    return found.left;
  }

  /** What follows from nodes alone. */
  memo<T>(key: string, make: () => T): T {
    const found = this.#memo.get(key);
    if (found !== undefined) return found as T;
    const made = make();
    if (this.#memo.size >= MOST_KEPT) this.#memo.clear();
    this.#memo.set(key, made);
    return made;
  }

  topology(key: string): Topology {
    let found = this.#topologies.get(key);
    if (found === undefined) {
      const level = /^hops:(\d+)$/.exec(key)?.[1];
      const valueOf = (node: SchedulerNode): string | undefined =>
        level === undefined ? labelOf(node, key) : nestedValue(node, this.levels(), Number(level));
      this.#topologies.set(key, (found = topologyBy(this.#nodes, valueOf)));
    }
    return found;
  }

  levels(): readonly string[] {
    return (this.#levels ??= levelsOf(this.#nodes));
  }

  /** Of guests that `selector` finds: how many are in each place. Follows what is placed and removed. */
  counts(selector: string, topologyKey = HOSTNAME_LABEL): PlaceCounts {
    const key = `${topologyKey} ${selector}`;
    let found = this.#tracked.get(key);
    if (found === undefined) {
      const topology = this.topology(topologyKey);
      const counts = new Int32Array(topology.places.length);
      const parsed = parseLabelSelector(selector);
      const bucket = bucketOf(parsed);
      found = { selector: parsed, bucket, topology, counts, total: 0 };
      const among = bucket === "" ? this.#guests.values() : this.#labelled.get(bucket);
      for (const guest of among) this.#count(found, guest, 1);
      this.#track(key, found);
    }
    return found;
  }

  #track(key: string, tracked: Tracked): void {
    const [oldest] = this.#tracked;
    if (this.#tracked.size >= MOST_KEPT && oldest !== undefined) {
      this.#tracked.delete(oldest[0]);
      this.#trackedBy.delete(oldest[1].bucket, oldest[1]);
    }
    this.#tracked.set(key, tracked);
    this.#trackedBy.add(tracked.bucket, tracked);
  }

  #antiTerm({ guests, topologyKey = HOSTNAME_LABEL }: GuestTerm): AntiTerm {
    const key = `${topologyKey} ${guests}`;
    let found = this.#anti.get(key);
    if (found === undefined) {
      const selector = parseLabelSelector(guests);
      found = { key, guests, topologyKey, selector, ids: new Set(), counts: undefined };
      this.#anti.set(key, found);
      this.#antiBy.add(bucketOf(selector), found);
    }
    return found;
  }

  #countHolder({ counts, topologyKey }: AntiTerm, node: string, sign: 1 | -1): void {
    if (counts === undefined) return;
    const place = this.topology(topologyKey).placeOf[this.#index.get(node) ?? -1] ?? -1;
    if (place >= 0) counts[place] = (counts[place] ?? 0) + sign;
  }

  #capacity(at: number): void {
    const { allocatable } = this.#nodes[at] as SchedulerNode;
    this.cpu[at] = allocatable.cpu;
    this.memory[at] = allocatable.memory;
  }

  #forget(): void {
    this.#rooms.clear();
    this.#topologies = new Map();
    this.#levels = undefined;
    this.#tracked.clear();
    this.#trackedBy.clear();
    this.#memo.clear();
    for (const term of this.#anti.values()) term.counts = undefined;
  }

  #add(guest: PlacedGuest, sign: 1 | -1): void {
    const at = this.#index.get(guest.node);
    if (at === undefined) return;
    const { id, demand } = guest.request;
    if (sign === 1) this.#on[at]?.add(id);
    else this.#on[at]?.delete(id);
    addTo(this.cpuDefined, at, sign * demand.cpu);
    addTo(this.memoryDefined, at, sign * demand.memory);
    for (const [storage, bytes] of Object.entries(guest.request.needs.storages ?? {}))
      if (bytes > 0) this.#promise(storage, at, sign * bytes);
    if (guest.counts) {
      addTo(this.cpuUsed, at, sign * demand.cpu);
      addTo(this.memoryUsed, at, sign * demand.memory);
      addTo(this.gpusUsed, at, sign * (demand.gpus ?? 0));
    }
    for (const bucket of bucketsOf(guest.request.labels))
      for (const tracked of this.#trackedBy.get(bucket)) this.#count(tracked, guest, sign);
  }

  #promise(storage: string, at: number, bytes: number): void {
    let promised = this.#promised.get(storage);
    if (promised === undefined)
      this.#promised.set(storage, (promised = { onNode: new Float64Array(this.#nodes.length), inAll: 0 }));
    addTo(promised.onNode, at, bytes);
    promised.inAll += bytes;
    const room = this.#rooms.get(storage);
    if (room === undefined) return;
    if (!room.isShared) this.#leave(room, at, promised);
    else for (let each = 0; each < room.left.length; each++) this.#leave(room, each, promised);
  }

  #leave({ isShared, avail, left }: StorageRoom, at: number, promised: Promised | undefined): void {
    const has = avail[at] ?? -1;
    const given = promised === undefined ? 0 : isShared ? promised.inAll : (promised.onNode[at] ?? 0);
    left[at] = has < 0 ? -1 : Math.max(0, has - given);
  }

  #count(tracked: Tracked, guest: PlacedGuest, sign: 1 | -1): void {
    const place = tracked.topology.placeOf[this.#index.get(guest.node) ?? -1] ?? -1;
    if (place < 0 || !selects(tracked.selector, guest.request.labels)) return;
    tracked.counts[place] = (tracked.counts[place] ?? 0) + sign;
    tracked.total += sign;
  }
}

function addTo(column: Float64Array, at: number, amount: number): void {
  column[at] = (column[at] ?? 0) + amount;
}
