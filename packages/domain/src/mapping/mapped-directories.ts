// Directories that guests have: whoever is root in such a guest puts there what he likes, links included. No storage is
// in one.
import { plainPath, type ClaimedPath } from "../storage/protected-paths.ts";
import { entriesOf, type Mapping } from "./mapping.ts";

/** Those on nodes that matter. */
export function mappedDirectories(
  all: readonly Mapping[],
  matters: (node: string) => boolean,
): readonly ClaimedPath[] {
  return all
    .filter(({ type }) => type === "dir")
    .flatMap((mapping) =>
      entriesOf(mapping)
        .filter(({ node, path }) => path !== undefined && matters(node))
        .map(({ path = "" }) => ({
          path: plainPath(path),
          owner: `which guests have as directory mapping '${mapping.id}'`,
        })),
    );
}
