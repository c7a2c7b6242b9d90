// Clusters that nobody gave a bound for their volumes, in tenants whose storage is bounded since: what such a cluster may have follows
// what its claims ask for, as far as the quota goes. Room is taken in the records first and then told to the nodes, and given back
// the other way around: what a node lets be made is counted at every moment. One server does it at a time.
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { shownClusterQuota } from "@gpve/domain/vcluster/cluster-quota.ts";
import { overlayOn, workerNodes } from "@gpve/domain/vcluster/overlay.ts";
import {
  heldSpec,
  keyOf,
  nodesOf,
  vclusterCollection,
  type VirtualClusterRecord,
} from "@gpve/domain/vcluster/vcluster-record.ts";
import type { VolumesRuntime } from "@gpve/domain/vcluster/vcluster-runtime.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { every } from "@gpve/kit/every.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { asSystem } from "../../node/as-system.ts";
import type { NodeCalls } from "../../node/call-agent.ts";
import type { QuotaView } from "../../quota/quota-view.ts";
import { boundsStorage } from "./bounded-volumes.ts";
import { requireRoom } from "../cluster-room.ts";
import { runtimeOn } from "../replicas/replica-nodes.ts";
import { volumeBytesOf } from "./volume-bytes.ts";

export interface KeepVolumeRoomsDeps {
  readonly records: Records;
  readonly board: NodeBoard;
  readonly calls: Pick<NodeCalls, "call">;
  readonly quotas: Pick<QuotaView, "quotasOn" | "usage">;
  readonly clock: Clock;
  readonly log: Pick<Logger, "debug">;
  readonly newRequestId: () => string;
}

interface Part {
  readonly node: string;
  readonly volumes: VolumesRuntime;
  readonly hasBytes: number;
}

const LOOK_MS = 2_000;
/** Claims come and go: room that is not needed any more is given back when that has stayed so. */
const SPARE_MS = 60_000;

export class KeepVolumeRooms {
  readonly #deps: KeepVolumeRoomsDeps;
  /** Since when a cluster has had more than it needs. */
  readonly #spareSince = new Map<string, number>();

  constructor(deps: KeepVolumeRoomsDeps) {
    this.#deps = deps;
  }

  /** Until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    await every(LOOK_MS, { clock: this.#deps.clock, signal }, () => this.look(signal));
  }

  async look(signal: AbortSignal): Promise<void> {
    const { records, log } = this.#deps;
    const all = records.collection(vclusterCollection).list();
    for (const { id, value: record } of all) {
      // One that has a bound of its own is its owner's to change.
      if (record.isLeaving === true || record.spec.volumeBytes !== undefined) continue;
      await this.#settle(record, signal).catch((err: unknown) => {
        if (!signal.aborted)
          log.debug({ resource: `vcluster/${id}`, err: messageOf(err) }, "room for volumes is as it was");
      });
    }
    for (const key of this.#spareSince.keys())
      if (!all.some(({ id }) => id === key)) this.#spareSince.delete(key);
  }

  async #settle(record: VirtualClusterRecord, signal: AbortSignal): Promise<void> {
    const { quotas } = this.#deps;
    const { volumeRoom, tenant } = record;
    const parts = this.#parts(record);
    if (parts === undefined) return;
    if (!boundsStorage(quotas, tenant)) {
      if (volumeRoom === undefined) return;
      await this.#tell(record, parts, undefined, signal);
      await this.#write(record, undefined);
      return;
    }
    const wanted = Math.max(...parts.map((part) => wantedBy(record, part)));
    if (volumeRoom !== undefined && this.#isSpare(keyOf(record), wanted < volumeRoom)) {
      await this.#tell(record, parts, wanted, signal);
      await this.#write(record, wanted);
      return;
    }
    const isEnough = volumeRoom !== undefined && wanted <= volumeRoom;
    const room = isEnough ? volumeRoom : await this.#grow(record, wanted);
    await this.#tell(record, parts, room, signal);
  }

  /** Undefined: not all of its nodes say how it is. */
  #parts(record: VirtualClusterRecord): readonly Part[] | undefined {
    const { board } = this.#deps;
    const key = keyOf(record);
    const parts = nodesOf(record).flatMap((node): Part[] => {
      const row = board.get(node)?.health === "online" ? runtimeOn(board, node, key) : undefined;
      if (row?.volumes === undefined) return [];
      const hasBytes = (row.vnodes ?? []).reduce((sum, { volumeBytes = 0 }) => sum + volumeBytes, 0);
      return [{ node, volumes: row.volumes, hasBytes }];
    });
    return parts.length === nodesOf(record).length ? parts : undefined;
  }

  #isSpare(key: string, isMore: boolean): boolean {
    const now = this.#deps.clock.monotonic();
    if (!isMore) this.#spareSince.delete(key);
    else if (!this.#spareSince.has(key)) this.#spareSince.set(key, now);
    return isMore && now - (this.#spareSince.get(key) ?? now) > SPARE_MS;
  }

  /** Answers with what it may have now. Where there is no room for more, that is what it has: that counts already. */
  async #grow(record: VirtualClusterRecord, wanted: number): Promise<number> {
    try {
      await this.#write(record, wanted);
      return wanted;
    } catch (err) {
      if (!isAppError(err, "capacity.exceeded")) throw err;
      if (record.volumeRoom !== undefined) return record.volumeRoom;
      const has = volumeBytesOf(this.#deps.board, record);
      await this.#write(record, has);
      return has;
    }
  }

  async #write(record: VirtualClusterRecord, volumeRoom: number | undefined): Promise<void> {
    const { records, board, quotas } = this.#deps;
    const { name, tenant } = record;
    await records.transact((tx) => {
      const now = tx.get(vclusterCollection, keyOf(record))?.value;
      const isSame = now?.volumeRoom === record.volumeRoom && now?.spec.volumeBytes === undefined;
      if (now === undefined || !isSame)
        throw new AppError("object.conflict", `virtual cluster '${name}' has just been given another quota`);
      const { volumeRoom: _before, ...kept } = now;
      const after = { ...kept, ...given({ volumeRoom }) };
      requireRoom(tx, quotas, {
        what: `give the volumes of virtual cluster ${name} more room`,
        tenant,
        before: heldSpec(now),
        after: heldSpec(after),
        hasBytes: volumeBytesOf(board, now),
      });
      tx.put(vclusterCollection, keyOf(record), after);
    });
  }

  /** Those that have been told otherwise. */
  async #tell(
    record: VirtualClusterRecord,
    parts: readonly Part[],
    volumeBytes: number | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const { calls, newRequestId } = this.#deps;
    const { workerQuota } = record.spec;
    const quota = { ...shownClusterQuota(given({ volumeBytes, workerQuota })) };
    for (const { node, volumes } of parts) {
      if (volumes.bound === volumeBytes) continue;
      const route = "PUT /gpve/nodes/{node}/vclusters/{vcluster}/quota" as const;
      const asking = asSystem({ work: "vcluster-volumes", requestId: newRequestId(), signal });
      await calls.call(node, route, { vcluster: keyOf(record), tenant: record.tenant, quota }, asking);
    }
  }
}

/** Each of several nodes gives its share: the one that needs the most says how much all of them have to have. */
function wantedBy({ spread }: VirtualClusterRecord, { node, volumes, hasBytes }: Part): number {
  return (hasBytes + (volumes.waiting ?? 0)) * workerNodes(overlayOn(spread, node));
}
