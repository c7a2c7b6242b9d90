// Every guest and every helper of a guest ("100-tpm") has a uid of its own that no account uses: 0x40000000 to 0x7fffffff,
// derived from the data directory's instance id and the process's id. The same guest has the same uid again, on whatever day
// it is started; files are given to it at every start, so a guest that had to move aside for another one (one in a million)
// loses nothing.
import { createHash } from "node:crypto";

export const FIRST_GUEST_UID = 0x4000_0000;
const RANGE = 0x4000_0000;

export function guestUid(instanceId: string, id: string, taken: ReadonlySet<number> = new Set()): number {
  const start = createHash("sha256").update(`${instanceId}/${id}`).digest().readUInt32BE(0) % RANGE;
  for (let step = 0; ; step++) {
    const uid = FIRST_GUEST_UID + ((start + step) % RANGE);
    if (!taken.has(uid)) return uid;
  }
}
