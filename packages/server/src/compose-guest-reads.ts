// What servers know of guests by themselves: configurations, lists, and where each could go.
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { Access } from "./application/access/access.ts";
import { mappingCollection } from "@gpve/domain/mapping/mapping.ts";
import { valuesOf } from "@gpve/domain/record/collection.ts";
import { MovableGuests, type MoveJudge } from "./application/guest/movable-guests.ts";
import { ReadGuests } from "./application/guest/read-guests.ts";
import type { MemoryNodeBoard } from "./application/node/board.ts";
import type { StorageDefinitions } from "./application/storage/storage-definitions.ts";

export interface GuestReads {
  readonly readGuests: ReadGuests;
  readonly movable: MovableGuests;
}

export function composeGuestReads(parts: {
  readonly records: Records;
  readonly access: Access;
  readonly board: MemoryNodeBoard;
  readonly storages: StorageDefinitions;
  readonly ha: MoveJudge;
}): GuestReads {
  const { records, access, board, storages, ha } = parts;
  const guests = records.collection(guestCollection);
  const readGuests = new ReadGuests({ guests, board, permissions: () => access.directory.model() });
  const movable = new MovableGuests({
    board,
    ha,
    storages: () => storages.definitions(),
    mappings: () => valuesOf(records, mappingCollection),
    guest: (vmid) => {
      const entry = guests.get(String(vmid));
      return entry && { record: entry.value, config: readGuests.config(entry) };
    },
  });
  return { readGuests, movable };
}
