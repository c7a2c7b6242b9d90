// Moves of guests between nodes: a server that passes a request to move one on to its node notes it first, with both ends
// and how each is known. Agents read the notes and let each other in by them; who owns the guest is changed here, in one
// transaction that uses the note up.
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import {
  guestCollection,
  guestRecord,
  withOwner,
  type GuestRecord,
} from "@gpve/domain/guest/guest-record.ts";
import {
  isMoveOver,
  moveCollection,
  moveId,
  type GuestMove,
  type MoveEnd,
} from "@gpve/domain/guest/guest-move.ts";
import type { MoveName } from "@gpve/domain/guest/move-servers.ts";
import type { NodeRecord } from "@gpve/domain/node/record.ts";
import { TOPOLOGY_PREFIX } from "@gpve/domain/scheduler/model.ts";
import { conflict, missing, parameterError } from "@gpve/domain/request/failures.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { beginUrgentWork } from "@gpve/kit/urgent-work.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import { turnReplication } from "../replication/replication-jobs.ts";
import { nodeRecords } from "./collections.ts";
import type { RemoteAgentConnection } from "./directory.ts";

export interface GuestMovesDeps {
  readonly records: Records;
  readonly clock: Clock;
}

/** Throws what stands in the way of a move. */
/** `asked`: as it came. */
export type RequireMovable = (
  vmid: number,
  target: string,
  asked: { readonly targetstorage?: unknown; readonly force?: unknown },
) => void;

/** Methods that move guests; the parameter `target` names where to. */
const MOVES_GUEST: ReadonlySet<string> = new Set([
  "POST /nodes/{node}/qemu/{vmid}/migrate",
  "POST /nodes/{node}/lxc/{vmid}/migrate",
]);
/** The same, of the guest that `newid` names once it is there. */
const CLONES_GUEST: ReadonlySet<string> = new Set(["POST /nodes/{node}/qemu/{vmid}/clone"]);
const SWEPT_AT_ONCE = 50;
const REGION_LABEL = `${TOPOLOGY_PREFIX}region`;

export class GuestMoves {
  readonly #records: Records;
  readonly #clock: Clock;

  constructor({ records, clock }: GuestMovesDeps) {
    this.#records = records;
    this.#clock = clock;
  }

  /** Before the node is told to move the guest, or to make one that is to end on another node. */
  async open(
    node: string,
    vmid: number,
    target: string,
    id: string,
    compression?: GuestMove["compression"],
  ): Promise<void> {
    await this.#records.transact((tx) => {
      const now = this.#clock.now();
      // Not a part of what is decided here: whoever moves many guests at once is not to wait for himself.
      const old = this.#records.collection(moveCollection).list();
      for (const ended of old.filter(({ value }) => isMoveOver(value, now)).slice(0, SWEPT_AT_ONCE))
        tx.delete(moveCollection, ended.id);
      noteMove(tx, { vmid, id, from: node, to: target, at: now, ...given({ compression }) });
    });
  }

  /** The node that owns the guest afterwards. What its former owner still writes is refused from then on. */
  async handOver(node: string, handed: MoveName & { readonly conf?: string | undefined }): Promise<string> {
    // The guest stands still meanwhile.
    const isOver = beginUrgentWork();
    try {
      return await this.#handOver(node, handed);
    } finally {
      isOver();
    }
  }

  #handOver(
    node: string,
    { vmid, moveId: id, conf }: MoveName & { readonly conf?: string | undefined },
  ): Promise<string> {
    return this.#records.transact((tx) => {
      const guest = requireGuest(tx, vmid);
      const move = tx.get(moveCollection, moveId(vmid, id))?.value;
      if (move === undefined) {
        // The answer got lost, or the move was called off: the record says which.
        return guest.node;
      }
      if (move.purpose !== undefined)
        throw new AppError("access.denied", `VM ${vmid} is only copied: nobody asked for it to move`);
      if (move.from.node !== node || guest.node !== node)
        throw new AppError(
          "access.denied",
          `VM ${vmid} is not node ${node}'s to hand over: node ${guest.node} has it`,
        );
      if (isMoveOver(move, this.#clock.now()))
        throw conflict(
          `the move of VM ${vmid} to node ${move.to.node} was allowed too long ago: ask for it again`,
        );
      if (tx.get(nodeRecords, move.to.node) === undefined)
        throw missing(
          `node ${move.to.node} is not in the cluster any more: VM ${vmid} stays on node ${node}`,
        );
      const { vmid: _vmid, conf: before, summary: _old, ...kept } = guest;
      tx.put(
        guestCollection,
        String(vmid),
        withOwner(guestRecord({ ...kept, vmid, conf: conf ?? before }), move.to.node),
      );
      tx.delete(moveCollection, moveId(vmid, id));
      turnReplication(tx, vmid, { from: node, to: move.to.node });
      return move.to.node;
    });
  }

  /** The node that owns the guest: no hand-over comes after this. */
  async withdraw(node: string, { vmid, moveId: id }: MoveName): Promise<string> {
    return this.#records.transact((tx) => {
      const move = tx.get(moveCollection, moveId(vmid, id))?.value;
      if (move !== undefined && move.from.node !== node && move.to.node !== node)
        throw new AppError("access.denied", `the move of VM ${vmid} is none of node ${node}'s`);
      if (move !== undefined) tx.delete(moveCollection, moveId(vmid, id));
      return tx.get(guestCollection, String(vmid))?.value.node ?? "";
    });
  }
}

export function withGuestMoves(
  agent: RemoteAgentConnection,
  moves: GuestMoves,
  requireMovable: RequireMovable,
): RemoteAgentConnection {
  return {
    node: agent.node,
    call: async (request, signal) => {
      const { params, decision, requestId } = request;
      const [vmid, target] = [Number(params["vmid"]), params["target"]];
      const newid = Number(params["newid"]);
      const isElsewhere = typeof target === "string" && target !== agent.node && target !== "localhost";
      if (CLONES_GUEST.has(decision.route) && isElsewhere && Number.isSafeInteger(newid))
        await moves.open(agent.node, newid, target, requestId);
      if (!MOVES_GUEST.has(decision.route) || !Number.isSafeInteger(vmid) || typeof target !== "string")
        return agent.call(request, signal);
      const { compression, postcopy, ...told } = params;
      const { targetstorage, force } = told;
      if (postcopy !== undefined) throw noPostcopy(vmid);
      const asked = onOff(compression);
      if (target === agent.node) throw parameterError({ target: "target is local node." });
      requireMovable(vmid, target, { targetstorage, force });
      await moves.open(agent.node, vmid, target, requestId, asked);
      return agent.call({ ...request, params: told }, signal);
    },
    ...(agent.tunnel === undefined ? {} : { tunnel: agent.tunnel.bind(agent) }),
    close: () => agent.close(),
  };
}

/** Parameters of ours beside PVE's own; the node reads them off the note. */
function onOff(compression: unknown): GuestMove["compression"] {
  if (compression === undefined || compression === "on" || compression === "off") return compression;
  throw parameterError({ compression: `'${JSON.stringify(compression)}' is neither on nor off` });
}

function noPostcopy(vmid: number): AppError {
  return new AppError(
    "feature.unsupported",
    `VM ${vmid} is not moved by postcopy: a guest whose RAM is on two nodes at once would be lost with the line between them, and QEMU opens its disks before the cluster says whose it is (docs/reference/migration.md). Leave postcopy out; raise migrate_downtime for a guest that is too busy`,
  );
}

/** By this, two nodes may move one guest, once. */
export function noteMove(
  tx: Tx,
  {
    from,
    to,
    ...rest
  }: Pick<GuestMove, "vmid" | "id" | "at" | "purpose" | "vcluster" | "compression"> & {
    readonly from: string;
    readonly to: string;
  },
): void {
  const far = isFar(tx, from, to) ? { isFar: true as const } : {};
  const move: GuestMove = { ...rest, ...far, from: endOf(tx, from), to: endOf(tx, to) };
  tx.put(moveCollection, moveId(move.vmid, move.id), move);
}

/** Nodes that say nothing of where they are, are near. */
function isFar(tx: Tx, from: string, to: string): boolean {
  const [here, there] = [from, to].map((node) => tx.get(nodeRecords, node)?.value.labels[REGION_LABEL]);
  return here !== undefined && there !== undefined && here !== there;
}

function requireGuest(tx: Tx, vmid: number): GuestRecord {
  const guest = tx.get(guestCollection, String(vmid))?.value;
  if (guest === undefined) throw missing(`there is no guest ${vmid} to hand over`);
  return guest;
}

function endOf(tx: Tx, node: string): MoveEnd {
  const record = tx.get(nodeRecords, node)?.value;
  if (record === undefined) throw missing(`no such cluster node '${node}'`);
  const { address, port } = record;
  return { node, address, port, fingerprints: fingerprintsOf(record) };
}

function fingerprintsOf({ certFingerprint, previousFingerprint }: NodeRecord): string[] {
  return [certFingerprint, ...(previousFingerprint === undefined ? [] : [previousFingerprint])];
}
