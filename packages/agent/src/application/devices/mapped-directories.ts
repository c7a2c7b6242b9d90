// What guests have of this node as mapped directories, as it was last known: storages go on while no server is in reach.
import { isAppError } from "@gpve/contracts/errors.ts";
import { mappedDirectories } from "@gpve/domain/mapping/mapped-directories.ts";
import { mappingCollection } from "@gpve/domain/mapping/mapping.ts";
import type { ClaimedPath } from "@gpve/domain/storage/protected-paths.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Records } from "@gpve/store/records/port.ts";

export function keepMappedDirectories(records: () => Records, node: string): () => readonly ClaimedPath[] {
  let known: readonly ClaimedPath[] = [];
  return () => {
    try {
      const all = records().collection(mappingCollection).list();
      known = mappedDirectories(
        all.map(({ value }) => value),
        (each) => each === node,
      );
    } catch (err) {
      if (!isAppError(err, "store.unavailable")) throw err;
      ignore(err, "what was known last is good enough until it comes back");
    }
    return known;
  };
}
