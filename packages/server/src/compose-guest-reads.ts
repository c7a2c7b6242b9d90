// What servers know of guests by themselves: configurations, lists, and where each could go.
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { Access } from "./application/access/access.ts";
import { MovableGuests } from "./application/guest/movable-guests.ts";
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
}): GuestReads {
  const { records, access, board, storages } = parts;
  const guests = records.collection(guestCollection);
  const readGuests = new ReadGuests({ guests, board, permissions: () => access.directory.model() });
  const movable = new MovableGuests({
    board,
    storages: () => storages.definitions(),
    guest: (vmid) => {
      const entry = guests.get(String(vmid));
      return entry && { record: entry.value, config: readGuests.config(entry) };
    },
  });
  return { readGuests, movable };
}
