// The state that decisions are made on, kept in step with records and reports, one guest or node at a time.
import { given } from "@gpve/contracts/given.ts";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import { guestCollection, type GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import { isInMaintenance, managerCollection } from "@gpve/domain/ha/collections.ts";
import type { NodeView } from "@gpve/domain/node/runtime.ts";
import { ClusterState } from "@gpve/domain/scheduler/cluster-state.ts";
import { guestRequest, placementId, storagesOf } from "@gpve/domain/scheduler/guest-request.ts";
import type { PlacedGuest, SchedulerNode } from "@gpve/domain/scheduler/model.ts";
import { isSameKind, schedulerNode } from "@gpve/domain/scheduler/scheduler-node.ts";
import { isShared, storageCollection } from "@gpve/domain/storage/definition.ts";
import { clusterShares } from "@gpve/domain/vcluster/cluster-shares.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { VM_TYPE } from "@gpve/domain/vm/vm-type.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Entry, Records } from "@gpve/store/records/port.ts";
import type { MemoryNodeBoard } from "../node/board.ts";
import { nodeRecords } from "../node/collections.ts";
import { cacheReader } from "../v1/adapter.ts";
import { metaCollection, idOfMetaId, readMeta } from "../v1/object-meta.ts";
import { movedGuests, tenantOf } from "../v1/tenant-of.ts";
import { placementKey, placementsDef, schedulingDef, type PlacementRecord } from "./placement-records.ts";

export interface ClusterViewDeps {
  readonly records: Records;
  readonly board: Pick<MemoryNodeBoard, "get" | "onChange">;
  readonly clock: Pick<Clock, "now">;
}

const VM_KIND = "VirtualMachine";

export class ClusterView {
  readonly #deps: ClusterViewDeps;
  readonly #state: ClusterState;
  readonly #listeners = new Set<() => void>();
  /** Promises that end by themselves. */
  readonly #ending = new Map<string, number>();
  /** Parts of virtual clusters that are placed, by the cluster's key. */
  readonly #clusters = new Map<string, readonly string[]>();
  readonly #stops: (() => void)[];

  constructor(deps: ClusterViewDeps) {
    this.#deps = deps;
    const { records, board } = deps;
    this.#state = new ClusterState(this.#nodes());
    for (const { id } of records.collection(guestCollection).list()) this.#guest(id);
    for (const { value } of records.collection(placementsDef).list()) this.#placement(value.request.id);
    for (const { id } of records.collection(vclusterCollection).list()) this.#cluster(id);
    this.#stops = [
      records.collection(vclusterCollection).onChange((id) => this.#then(() => this.#cluster(id))),
      records.collection(guestCollection).onChange((id) => this.#then(() => this.#guest(id))),
      records.collection(schedulingDef).onChange((id) => this.#then(() => this.#guest(id))),
      records
        .collection(placementsDef)
        .onChange((id) => this.#then(() => this.#placement(decodeURIComponent(id)))),
      records.collection(metaCollection).onChange((id) => {
        const name = idOfMetaId(VM_KIND, id);
        if (name !== undefined) this.#then(() => this.#guest(name));
      }),
      records
        .collection(poolsDef)
        .onChange((_id, after, before) =>
          this.#then(() => movedGuests(before?.value, after?.value).forEach((id) => this.#guest(id))),
        ),
      records.collection(nodeRecords).onChange((id) => this.#then(() => this.#node(id))),
      records.collection(managerCollection).onChange(() => this.#maintained()),
      records
        .collection(storageCollection)
        .onChange(() => this.#then(() => this.#state.setNodes(this.#nodes()))),
      board.onChange((view, previous) => this.#then(() => this.#reported(view, previous))),
    ];
  }

  /** As of now. Not to be kept: it changes. */
  state(): ClusterState {
    const now = this.#deps.clock.now();
    for (const [id, until] of this.#ending) {
      if (until > now) continue;
      this.#ending.delete(id);
      this.#placement(id);
    }
    return this.#state;
  }

  /** Called whenever something may have become free. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  stop(): void {
    this.#stops.forEach((stop) => stop());
  }

  #then(change: () => void): void {
    change();
    this.#listeners.forEach((listener) => listener());
  }

  #nodes(): readonly SchedulerNode[] {
    return this.#deps.records
      .collection(nodeRecords)
      .list()
      .map(({ value }) => this.#schedulerNode(value.name))
      .flatMap((node) => node ?? []);
  }

  #schedulerNode(name: string): SchedulerNode | undefined {
    const { records, board } = this.#deps;
    const record = records.collection(nodeRecords).get(name)?.value;
    const storages = records.collection(storageCollection).list();
    return (
      record &&
      schedulerNode(
        record,
        board.get(name),
        storages.map(({ value }) => value),
        isInMaintenance(name, records.collection(managerCollection)),
      )
    );
  }

  #node(name: string): void {
    const after = this.#schedulerNode(name);
    const at = this.#state.indexOf(name);
    const before = at === undefined ? undefined : this.#state.nodes[at];
    if (after === undefined || before === undefined) this.#state.setNodes(this.#nodes());
    else this.#state.updateNode(after, { sameKind: isSameKind(before, after) });
  }

  /** The manager's record changes often, and seldom by that. */
  #maintained(): void {
    const manager = this.#deps.records.collection(managerCollection);
    const changed = this.#state.nodes.filter(
      ({ name, inMaintenance }) => isInMaintenance(name, manager) !== (inMaintenance === true),
    );
    for (const { name } of changed) this.#then(() => this.#node(name));
  }

  #reported(view: NodeView, previous: NodeView | undefined): void {
    this.#node(view.node);
    const [before, after] = [runningOn(previous), runningOn(view)];
    for (const vmid of before) if (!after.has(vmid)) this.#guest(String(vmid));
    for (const vmid of after) if (!before.has(vmid)) this.#guest(String(vmid));
  }

  #guest(id: string): void {
    const entry = this.#deps.records.collection(guestCollection).get(id);
    if (entry === undefined) for (const kind of ["vm", "ct"]) this.#placement(`${kind}/${id}`);
    else this.#show(entry);
  }

  #show({ value: guest }: Entry<GuestRecord>): void {
    const id = placementId(guest);
    if (guest.summary.template) {
      this.#state.remove(id);
      return;
    }
    const { records, board } = this.#deps;
    const placement = records.collection(placementsDef).get(placementKey(id))?.value;
    const isAwaited =
      placement?.starts === true && placement.node === guest.node && this.#isPromised(placement);
    const runs = runningOn(board.get(guest.node)).has(guest.vmid);
    if (isAwaited && placement.until !== undefined) this.#ending.set(id, placement.until);
    const request = this.requestOf(guest);
    const tied = this.#tied(storagesOf(request));
    this.#state.place({ request, node: guest.node, counts: runs || isAwaited, ...given({ tied }) });
  }

  /** What a guest that is there asks for, with its rules. */
  requestOf(guest: GuestRecord): PlacedGuest["request"] {
    const { records } = this.#deps;
    const reader = cacheReader(records);
    const meta = guest.type === VM_TYPE ? readMeta(reader, VM_KIND, String(guest.vmid)) : undefined;
    // Labels of a new one are written when it is made; those it was placed with hold until then.
    const placed = records.collection(placementsDef).get(placementKey(placementId(guest)))?.value;
    return guestRequest(guest, {
      tenant: tenantOf(reader, guest.vmid) ?? guest.wantedPool,
      labels: meta?.value.labels ?? placed?.request.labels,
      rules: records.collection(schedulingDef).get(String(guest.vmid))?.value.rules,
    });
  }

  /** What has no guest's record: something promised, or no guest at all. */
  #placement(id: string): void {
    const { records } = this.#deps;
    const vmid = /^(?:vm|ct)\/(\d+)$/.exec(id)?.[1];
    const guest = vmid === undefined ? undefined : records.collection(guestCollection).get(vmid);
    if (guest !== undefined && placementId(guest.value) === id) {
      this.#show(guest);
      return;
    }
    const placement = records.collection(placementsDef).get(placementKey(id))?.value;
    this.#ending.delete(id);
    if (placement === undefined || !this.#isPromised(placement)) {
      this.#state.remove(id);
      return;
    }
    if (placement.until !== undefined) this.#ending.set(id, placement.until);
    this.#state.place({ request: placement.request, node: placement.node, counts: true });
  }

  /** Its workers take of their nodes what guests of their size would. */
  #cluster(id: string): void {
    const record = this.#deps.records.collection(vclusterCollection).get(id)?.value;
    const shares = record === undefined ? [] : clusterShares(record);
    const before = this.#clusters.get(id) ?? [];
    for (const share of before)
      if (!shares.some(({ request }) => request.id === share)) this.#state.remove(share);
    for (const share of shares) this.#state.place(share);
    if (shares.length === 0) this.#clusters.delete(id);
    else
      this.#clusters.set(
        id,
        shares.map(({ request }) => request.id),
      );
  }

  #isPromised({ until }: PlacementRecord): boolean {
    return until === undefined || until > this.#deps.clock.now();
  }

  #tied(storages: readonly string[]): string | undefined {
    const definitions = this.#deps.records.collection(storageCollection);
    const own = storages.find((name) => {
      const definition = definitions.get(name)?.value;
      return definition !== undefined && !isShared(definition);
    });
    return own === undefined ? undefined : `it has a volume on storage ${own}, which nodes do not share`;
  }
}

function runningOn(view: NodeView | undefined): Set<number> {
  // Also where it is silent now: its guests go on running.
  const guests = view?.report?.guests ?? [];
  return new Set(guests.filter(({ status }) => status === "running").map(({ vmid }) => vmid));
}
