// Every guest and every helper of a guest ("100-tpm") has a uid of its own that no account uses: 0x40000000 to 0x7fffffff,
// derived from a seed and the process's id. The seed is the cluster's, where there is one: a guest has the same uid on all
// nodes, and again on whatever day it is started; files are given to it at every start, so a guest that had to move aside
// for another one (one in a million) loses nothing.
import { createHash } from "node:crypto";

export interface UidRange {
  readonly first: number;
  readonly last: number;
}

export const FIRST_GUEST_UID = 0x4000_0000;
const GUEST_UIDS: UidRange = { first: FIRST_GUEST_UID, last: 0x7fff_ffff };
/** Of processes that may reach other machines and not this one: the kernel tells them by it. */
export const USER_NETWORK_UIDS: UidRange = { first: 0x3800_0000, last: 0x3bff_ffff };

export function isUserNetworkUid(uid: number): boolean {
  return uid >= USER_NETWORK_UIDS.first && uid <= USER_NETWORK_UIDS.last;
}

export function guestUid(
  instanceId: string,
  id: string,
  taken: ReadonlySet<number> = new Set(),
  { first, last }: UidRange = GUEST_UIDS,
): number {
  const range = last - first + 1;
  const start = createHash("sha256").update(`${instanceId}/${id}`).digest().readUInt32BE(0) % range;
  for (let step = 0; ; step++) {
    const uid = first + ((start + step) % range);
    if (!taken.has(uid)) return uid;
  }
}

/** Processes of one owner, as "demo.kube-apiserver" and "demo.kube-scheduler" are, have one uid together. */
function ownerOf(id: string): string {
  return id.split(".", 1)[0] ?? id;
}

/** Who has which, while he runs. */
export class GuestUids {
  readonly #instanceId: string;
  readonly #uids = new Map<string, number>();

  constructor(instanceId: string) {
    this.#instanceId = instanceId;
  }

  get(id: string): number | undefined {
    return this.#uids.get(id);
  }

  take(id: string, isOutwardOnly: boolean): number {
    this.#uids.delete(id);
    const owner = ownerOf(id);
    const others = [...this.#uids].filter(([other]) => ownerOf(other) !== owner || owner === other);
    const range = isOutwardOnly ? USER_NETWORK_UIDS : GUEST_UIDS;
    const uid = guestUid(this.#instanceId, owner, new Set(others.map(([, each]) => each)), range);
    this.#uids.set(id, uid);
    return uid;
  }

  /** It runs already. */
  note(id: string, uid: number): void {
    this.#uids.set(id, uid);
  }

  free(id: string): void {
    this.#uids.delete(id);
  }
}
