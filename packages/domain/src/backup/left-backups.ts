// Archives of guests that are gone. They count for the pool that the guest was in when it was deleted, until they are
// gone too: else whoever deletes a guest after each backup could have any number of them.
import type { GuestType } from "../guest/guest-kinds.ts";
import { isGuestType } from "../guest/guest-words.ts";

/** Written by servers, and by them alone. */
export interface LeftBackups {
  readonly vmid: number;
  readonly type: GuestType;
  /** Where the guest was. */
  readonly node: string;
  /** Empty: it was in none. */
  readonly pool: string;
  /** Seconds since 1970. Archives from later are of another guest with its id. */
  readonly until: number;
  readonly backups: number;
}

export const leftBackupCollection = {
  prefix: "/gpve/left-backups/",
  decode: decodeLeftBackups,
};

/** How many of them a node still sees: its own to write. */
export interface SeenBackups {
  readonly backups: number;
}

export function seenBackupCollection(node: string) {
  return { prefix: `/gpve/node-data/${node}/left-backups/`, decode: decodeSeen };
}

export function leftBackupsId({ type, vmid, until }: Pick<LeftBackups, "type" | "vmid" | "until">): string {
  return `${type}-${vmid}-${until}`;
}

/** What a node says can only make it less. */
export function stillLeft(left: LeftBackups, seen: SeenBackups | undefined): number {
  return Math.min(left.backups, seen?.backups ?? left.backups);
}

function decodeLeftBackups(json: unknown): LeftBackups {
  const { vmid, type, node, pool, until, backups } = (json ?? {}) as Partial<LeftBackups>;
  if (
    typeof vmid !== "number" ||
    !isGuestType(type) ||
    typeof node !== "string" ||
    typeof pool !== "string" ||
    typeof until !== "number" ||
    typeof backups !== "number"
  )
    throw new Error("a note of the backups of a deleted guest has a shape this version does not know");
  return { vmid, type, node, pool, until, backups };
}

function decodeSeen(json: unknown): SeenBackups {
  const { backups } = (json ?? {}) as Partial<SeenBackups>;
  if (!Number.isSafeInteger(backups) || Number(backups) < 0)
    throw new Error("a node's count of the backups of a deleted guest is no count");
  return { backups: Number(backups) };
}
