// A move of a guest from one node to another, as a server has allowed it: the ticket by which the two agents know each
// other, and what the change of ownership is checked against. It is about one request and ends with it.
import { given } from "@gpve/contracts/given.ts";
import { unknownShape } from "../record/collection.ts";

/** One end of a move. Nobody but who shows one of these certificates is that node. */
export interface MoveEnd {
  readonly node: string;
  readonly address: string;
  readonly port: number;
  readonly fingerprints: readonly string[];
}

export interface GuestMove {
  readonly vmid: number;
  /** The request that asked for it. */
  readonly id: string;
  readonly from: MoveEnd;
  readonly to: MoveEnd;
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** replica: the guest stays where it is, and a copy of its disks is all that goes over. vcluster: no guest, but the
   * control plane of a virtual cluster; `vmid` is 0. standby: what such a one's store commits, for as long as it is followed.
   * volumes: those of its workers, which `from` asks `to` for. */
  readonly purpose?: "replica" | "vcluster" | "standby" | "volumes";
  /** Its name. */
  readonly vcluster?: string;
  /** The nodes are in different regions. */
  readonly isFar?: true;
  /** As whoever asked for it said; absent = as the line is. */
  readonly compression?: "on" | "off";
}

/** A task that moves a guest may wait and copy for hours; nobody waits for longer. */
export const MOVE_KEPT_MS = 86_400_000;

export function moveId(vmid: number | string, requestId: string): string {
  return `${vmid}.${requestId}`;
}

export function isMoveOver({ at }: GuestMove, now: number): boolean {
  return now >= at + MOVE_KEPT_MS;
}

export const moveCollection = {
  prefix: "/gpve/guest-moves/",
  decode: decodeMove,
};

function decodeMove(json: unknown): GuestMove {
  const { vmid, id, from, to, at, purpose, vcluster, isFar, compression } = (json ??
    {}) as Partial<GuestMove>;
  if (
    typeof vmid !== "number" ||
    typeof id !== "string" ||
    typeof at !== "number" ||
    !isEnd(from) ||
    !isEnd(to)
  )
    throw unknownShape("a move in the store");
  return { vmid, id, from, to, at, ...given({ purpose, vcluster, isFar, compression }) };
}

function isEnd(end: Partial<MoveEnd> | undefined): end is MoveEnd {
  return (
    typeof end?.node === "string" &&
    typeof end.address === "string" &&
    typeof end.port === "number" &&
    Array.isArray(end.fingerprints)
  );
}
