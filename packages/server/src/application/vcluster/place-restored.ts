// Which node gets a virtual cluster that is made of a backup: one that sees the backup and that a new one could have been made on.
import { AppError } from "@gpve/contracts/errors.ts";
import { fittingNewNodes, type New, placeCluster, type PlaceDeps } from "./place-cluster.ts";

export interface SeenFrom {
  readonly node: string;
  /** It was asked for. */
  readonly isNamed: boolean;
  /** The first of these that sees the backup too. */
  readonly seenBy: (nodes: readonly string[]) => Promise<string | undefined>;
}

export async function placeRestored(deps: PlaceDeps, wanted: New, from: SeenFrom): Promise<string> {
  const { node, isNamed, seenBy } = from;
  // What is in a backup is put on one node, however many the one before had.
  const alone = { ...wanted, replicas: 1, spread: false, node: isNamed ? node : "" };
  if (isNamed) return placeCluster(deps, alone);
  const fitting = fittingNewNodes(deps, alone).map((each) => each.node);
  if (fitting.length === 0) return placeCluster(deps, alone);
  const found = fitting.includes(node) ? node : await seenBy(fitting);
  if (found !== undefined) return found;
  throw new AppError(
    "capacity.exceeded",
    `no node that sees the backup can have the virtual cluster: ${node} cannot, and ${fitting.join(", ")} could, and cannot read the backup. Copy it to a storage of theirs, or name the node that shall have it all the same, which then says what it lacks (\`node\`, gpvectl: --node)`,
  );
}
