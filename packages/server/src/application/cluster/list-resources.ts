import type { Collection, Entry } from "@gpve/store/records/port.ts";
import type { AccessModel } from "@gpve/domain/access/model.ts";
import type { GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { GuestRuntime, NodeBoard } from "@gpve/domain/node/runtime.ts";
import { isRoot, type Viewer } from "@gpve/domain/request/context.ts";
import type { VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { MANAGER_STATUS_ID, serviceState, sidOf, type HaResource } from "@gpve/domain/ha/collections.ts";
import type { ManagerStatus } from "@gpve/domain/ha/model.ts";
import { STORAGE_SEEN_WITH } from "@gpve/domain/storage/seen-with.ts";
import { Kept } from "../kept.ts";
import {
  addToPool,
  guestRow,
  nodeRow,
  poolRow,
  storageRow,
  vclusterRow,
  type PoolUsage,
  type Row,
  type StorageListing,
} from "./resource-rows.ts";

export type ResourceType = "vm" | "storage" | "node" | "sdn";

export interface ListResourcesDeps {
  readonly guests: Collection<GuestRecord>;
  readonly board: NodeBoard;
  readonly pools: () => PoolMembership;
  readonly storages: () => readonly StorageListing[];
  readonly vclusters: Pick<Collection<VirtualClusterRecord>, "list">;
  readonly ha: {
    readonly resources: Pick<Collection<HaResource>, "list" | "get">;
    readonly manager: Pick<Collection<ManagerStatus>, "get">;
  };
}

/** The pools of one moment. */
export interface PoolMembership {
  readonly ids: () => readonly string[];
  /** Pool that holds a guest. */
  readonly ofGuest: (vmid: number) => string | undefined;
  /** Another object whenever membership or anyone's permissions changed. */
  readonly version: unknown;
}

export function poolMembership(model: AccessModel): PoolMembership {
  return {
    ids: () => [...model.pools.keys()],
    ofGuest: (vmid) => model.poolsOf.get(`/vms/${vmid}`)?.[0],
    version: model,
  };
}

interface ReadyRow {
  readonly entry: Entry<GuestRecord>;
  readonly runtime: GuestRuntime | undefined;
  readonly online: boolean;
  readonly pool: string | undefined;
  readonly hastate: string | undefined;
  readonly row: Row;
  readonly json: string;
}

type Runtimes = ReadonlyMap<
  string,
  { readonly online: boolean; readonly guests: ReadonlyMap<number, GuestRuntime> }
>;

/** Rows side by side, as they are sent. */
interface Block {
  readonly rows: readonly ReadyRow[];
  readonly bytes: Buffer;
}

const VM_PRIVILEGES = ["VM.Audit"];
/** A report changes the rows of one node: what it leaves alone is not written again. */
const BLOCK_ROWS = 256;
const KEPT_BYTES = 64 * 1024 * 1024;
const KEPT_ENTRIES = 1_000_000;

/** The platform's inventory as one list, from memory. */
export class ListResources {
  readonly #deps: ListResourcesDeps;
  readonly #ready = new Map<string, ReadyRow>();
  /** Of the list of all guests, by its place in it. */
  readonly #blocks: Block[] = [];
  readonly #guestsOf = new WeakMap<object, ReadonlyMap<number, GuestRuntime>>();
  readonly #lists = new Kept<Buffer>({ limit: KEPT_BYTES, weigh: (json) => json.length });
  readonly #visible = new Kept<readonly Entry<GuestRecord>[]>({
    limit: KEPT_ENTRIES,
    weigh: (entries) => 1 + entries.length,
  });

  constructor(deps: ListResourcesDeps) {
    this.#deps = deps;
    deps.guests.onChange((id, entry) => {
      if (entry === undefined) this.#ready.delete(id);
    });
  }

  /** JSON text of the list. The bytes are kept for everyone who asks again before something changes. */
  json(type: ResourceType | undefined, viewer: Viewer): Buffer {
    const { board, guests, storages } = this.#deps;
    const pools = this.#deps.pools();
    const facts = [
      board.generation(),
      guests.list(),
      pools.version,
      storages(),
      this.#deps.vclusters.list(),
      this.#deps.ha.resources.list(),
      this.#deps.ha.manager.get(MANAGER_STATUS_ID),
    ];
    return this.#lists.get(facts, `${viewer.actor?.authid ?? ""} ${type ?? ""}`, () =>
      jsonList(this.#parts(type, viewer, pools)),
    );
  }

  /** One guest's row, for pool members and searches. */
  guest(vmid: number): Row | undefined {
    const entry = this.#deps.guests.get(String(vmid));
    return entry === undefined ? undefined : this.#guestRow(entry, this.#runtimes(), this.#deps.pools()).row;
  }

  storage(storage: string): readonly Row[] {
    return this.#storageRows().filter((row) => row["storage"] === storage);
  }

  /** Each is one row, or several with commas between them. */
  #parts(type: ResourceType | undefined, viewer: Viewer, pools: PoolMembership): (string | Buffer)[] {
    const { access } = viewer;
    const parts: (string | Buffer)[] = [];
    if (type === undefined) {
      const usage = this.#poolUsage(pools);
      for (const pool of pools.ids()) {
        if (access.has(`/pool/${pool}`, ["Pool.Audit"]))
          parts.push(JSON.stringify(poolRow(pool, usage.get(pool))));
      }
    }
    if (type === undefined || type === "vm") {
      const runtimes = this.#runtimes();
      const rows = this.#visibleGuests(viewer, pools).map((entry) => this.#guestRow(entry, runtimes, pools));
      if (rows.length === this.#deps.guests.list().length) parts.push(...this.#inBlocks(rows));
      else for (const { json } of rows) parts.push(json);
    }
    if (type === undefined) {
      for (const { value } of this.#deps.vclusters.list())
        if (access.has(`/pool/${value.tenant}`, ["VC.Audit"]))
          parts.push(JSON.stringify(vclusterRow(value, this.#deps.board)));
    }
    if (type === undefined || type === "node") {
      for (const view of this.#deps.board.list()) {
        parts.push(JSON.stringify(nodeRow(view, access.has(`/nodes/${view.node}`, ["Sys.Audit"]))));
      }
    }
    if (type === undefined || type === "storage") {
      for (const row of this.#storageRows()) {
        if (access.has(`/storage/${String(row["storage"])}`, STORAGE_SEEN_WITH, "any")) {
          parts.push(JSON.stringify(row));
        }
      }
    }
    return parts;
  }

  /** What the running guests of each pool take together. */
  #poolUsage(pools: PoolMembership): ReadonlyMap<string, PoolUsage> {
    const usage = new Map<string, PoolUsage>();
    if (pools.ids().length === 0) return usage;
    const runtimes = this.#runtimes();
    for (const entry of this.#deps.guests.list()) {
      const { pool, row } = this.#guestRow(entry, runtimes, pools);
      if (pool !== undefined && Number(row["uptime"]) > 0) usage.set(pool, addToPool(usage.get(pool), row));
    }
    return usage;
  }

  /** Who may see what changes far less often than what runs. */
  #visibleGuests({ actor, access }: Viewer, pools: PoolMembership): readonly Entry<GuestRecord>[] {
    const all = this.#deps.guests.list();
    if (actor !== undefined && isRoot(actor)) return all;
    return this.#visible.get([all, pools.version], actor?.authid ?? "", () =>
      all.filter((entry) => access.has(`/vms/${entry.id}`, VM_PRIVILEGES)),
    );
  }

  #inBlocks(rows: readonly ReadyRow[]): Buffer[] {
    const count = Math.ceil(rows.length / BLOCK_ROWS);
    this.#blocks.length = Math.min(this.#blocks.length, count);
    for (let at = 0; at < count; at++) {
      const wanted = rows.slice(at * BLOCK_ROWS, (at + 1) * BLOCK_ROWS);
      const kept = this.#blocks[at];
      if (kept?.rows.length === wanted.length && wanted.every((row, index) => row === kept.rows[index]))
        continue;
      this.#blocks[at] = { rows: wanted, bytes: Buffer.from(wanted.map(({ json }) => json).join(",")) };
    }
    return this.#blocks.map(({ bytes }) => bytes);
  }

  #storageRows(): Row[] {
    return this.#deps.board.list().flatMap((view) =>
      this.#deps
        .storages()
        .filter(({ nodes }) => nodes === undefined || nodes.includes(view.node))
        .map((definition) =>
          storageRow(
            view.node,
            definition,
            view.report?.storages.find((storage) => storage.storage === definition.storage),
            view.health === "online",
          ),
        ),
    );
  }

  #runtimes(): Runtimes {
    return new Map(
      this.#deps.board.list().map((view) => [
        view.node,
        {
          online: view.health === "online",
          guests: this.#guestsIn(view.report?.guests ?? []),
        },
      ]),
    );
  }

  #guestsIn(reported: readonly GuestRuntime[]): ReadonlyMap<number, GuestRuntime> {
    const known = this.#guestsOf.get(reported);
    if (known !== undefined) return known;
    const guests = new Map(reported.map((guest) => [guest.vmid, guest]));
    this.#guestsOf.set(reported, guests);
    return guests;
  }

  #guestRow(entry: Entry<GuestRecord>, runtimes: Runtimes, pools: PoolMembership): ReadyRow {
    const node = runtimes.get(entry.value.node);
    const runtime = node?.guests.get(entry.value.vmid);
    const online = node?.online ?? false;
    const pool = pools.ofGuest(entry.value.vmid);
    const hastate = this.#hastate(entry.value);
    const kept = this.#ready.get(entry.id);
    if (
      kept !== undefined &&
      kept.entry === entry &&
      kept.runtime === runtime &&
      kept.online === online &&
      kept.pool === pool &&
      kept.hastate === hastate
    ) {
      return kept;
    }
    const row = guestRow(entry.value, runtime, online, pool, hastate);
    const ready = { entry, runtime, online, pool, hastate, row, json: JSON.stringify(row) };
    this.#ready.set(entry.id, ready);
    return ready;
  }

  /** As the manager has it; one that it has not seen yet has none. */
  #hastate(guest: GuestRecord): string | undefined {
    const { ha } = this.#deps;
    if (ha === undefined || ha.resources.list().length === 0) return undefined;
    return serviceState(sidOf(guest), ha);
  }
}

function jsonList(parts: readonly (string | Buffer)[]): Buffer {
  const pieces: Buffer[] = [];
  let text = "[";
  for (const [at, part] of parts.entries()) {
    if (at > 0) text += ",";
    if (typeof part === "string") text += part;
    else {
      pieces.push(Buffer.from(text), part);
      text = "";
    }
  }
  return Buffer.concat([...pieces, Buffer.from(`${text}]`)]);
}
