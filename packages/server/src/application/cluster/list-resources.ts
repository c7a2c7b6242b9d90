import type { Collection, Entry } from "@gpve/store/records/port.ts";
import type { GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { GuestRuntime, NodeBoard } from "@gpve/domain/node/runtime.ts";
import { isRoot, type AccessView, type Actor } from "@gpve/domain/request/context.ts";
import { guestRow, nodeRow, poolRow, storageRow, type Row, type StorageDefinition } from "./resource-rows.ts";

export type ResourceType = "vm" | "storage" | "node" | "sdn";

export interface ListResourcesDeps {
  readonly guests: Collection<GuestRecord>;
  readonly board: NodeBoard;
  /** Pool that holds a guest or storage. */
  readonly pools: {
    readonly ids: () => readonly string[];
    readonly ofGuest: (vmid: number) => string | undefined;
    /** Changes whenever membership does. */
    readonly version: () => unknown;
  };
  readonly storages: () => readonly StorageDefinition[];
}

export interface Viewer {
  readonly actor: Actor | undefined;
  readonly access: AccessView;
}

interface ReadyRow {
  readonly entry: Entry<GuestRecord>;
  readonly runtime: GuestRuntime | undefined;
  readonly online: boolean;
  readonly pool: string | undefined;
  readonly row: Row;
  readonly json: string;
}

type Runtimes = ReadonlyMap<
  string,
  { readonly online: boolean; readonly guests: ReadonlyMap<number, GuestRuntime> }
>;

const VM_PRIVILEGES = ["VM.Audit"];

/** The platform's inventory as one list, from memory. */
export class ListResources {
  readonly #deps: ListResourcesDeps;
  readonly #ready = new Map<string, ReadyRow>();
  #rootList: { key: readonly unknown[]; type: ResourceType | undefined; json: Buffer }[] = [];

  constructor(deps: ListResourcesDeps) {
    this.#deps = deps;
    deps.guests.onChange((id, entry) => {
      if (entry === undefined) this.#ready.delete(id);
    });
  }

  /** JSON text of the list. Bytes for root, who sees everything, are kept until something changes. */
  json(type: ResourceType | undefined, viewer: Viewer): Buffer {
    if (viewer.actor === undefined || !isRoot(viewer.actor))
      return Buffer.from(`[${this.#parts(type, viewer).join(",")}]`);
    const { board, guests, pools, storages } = this.#deps;
    const key = [board.generation(), guests.list(), pools.version(), storages()];
    const kept = this.#rootList.find(
      (list) => list.type === type && list.key.every((part, at) => part === key[at]),
    );
    if (kept !== undefined) return kept.json;
    const json = Buffer.from(`[${this.#parts(type, viewer).join(",")}]`);
    this.#rootList = [...this.#rootList.filter((list) => list.type !== type), { key, type, json }];
    return json;
  }

  /** One guest's row, for pool members and searches. */
  guest(vmid: number): Row | undefined {
    const entry = this.#deps.guests.get(String(vmid));
    return entry === undefined ? undefined : this.#guestRow(entry, this.#runtimes()).row;
  }

  storage(storage: string): readonly Row[] {
    return this.#storageRows().filter((row) => row["storage"] === storage);
  }

  #parts(type: ResourceType | undefined, { access }: Viewer): string[] {
    const parts: string[] = [];
    if (type === undefined) {
      for (const pool of this.#deps.pools.ids()) {
        if (access.has(`/pool/${pool}`, ["Pool.Audit"])) parts.push(JSON.stringify(poolRow(pool)));
      }
    }
    if (type === undefined || type === "vm") {
      const runtimes = this.#runtimes();
      for (const entry of this.#deps.guests.list()) {
        if (access.has(`/vms/${entry.id}`, VM_PRIVILEGES)) parts.push(this.#guestRow(entry, runtimes).json);
      }
    }
    if (type === undefined || type === "node") {
      for (const view of this.#deps.board.list()) {
        parts.push(JSON.stringify(nodeRow(view, access.has(`/nodes/${view.node}`, ["Sys.Audit"]))));
      }
    }
    if (type === undefined || type === "storage") {
      for (const row of this.#storageRows()) {
        if (
          access.has(
            `/storage/${String(row["storage"])}`,
            ["Datastore.Audit", "Datastore.AllocateSpace"],
            "any",
          )
        ) {
          parts.push(JSON.stringify(row));
        }
      }
    }
    return parts;
  }

  #storageRows(): Row[] {
    return this.#deps.board.list().flatMap((view) =>
      this.#deps.storages().map((definition) =>
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
          guests: new Map((view.report?.guests ?? []).map((guest) => [guest.vmid, guest])),
        },
      ]),
    );
  }

  #guestRow(entry: Entry<GuestRecord>, runtimes: Runtimes): ReadyRow {
    const node = runtimes.get(entry.value.node);
    const runtime = node?.guests.get(entry.value.vmid);
    const online = node?.online ?? false;
    const pool = this.#deps.pools.ofGuest(entry.value.vmid);
    const kept = this.#ready.get(entry.id);
    if (
      kept !== undefined &&
      kept.entry === entry &&
      kept.runtime === runtime &&
      kept.online === online &&
      kept.pool === pool
    ) {
      return kept;
    }
    const row = guestRow(entry.value, runtime, online, pool);
    const ready = { entry, runtime, online, pool, row, json: JSON.stringify(row) };
    this.#ready.set(entry.id, ready);
    return ready;
  }
}
