// Which node gets a virtual cluster that is made of a backup: one that sees the backup and that a new one could have been made on.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Explanation } from "@gpve/domain/scheduler/explain.ts";

export interface SeenFrom {
  readonly node: string;
  /** It was asked for. */
  readonly isNamed: boolean;
  /** The first of these that sees the backup too. */
  readonly seenBy: (nodes: readonly string[]) => Promise<string | undefined>;
}

/** Of those that could have it, the one where the backup was seen, or the best that sees it too; undefined = none could have it. */
export async function restoredPlace(
  { verdicts }: Pick<Explanation, "verdicts">,
  { node, seenBy }: SeenFrom,
): Promise<string | undefined> {
  const fitting = verdicts.filter(({ refusals }) => refusals.length === 0).map((each) => each.node);
  if (fitting.length === 0) return undefined;
  const found = fitting.includes(node) ? node : await seenBy(fitting);
  if (found !== undefined) return found;
  throw new AppError(
    "capacity.exceeded",
    `no node that sees the backup can have the virtual cluster: ${node} cannot, and ${fitting.join(", ")} could, and cannot read the backup. Copy it to a storage of theirs, or name the node that shall have it all the same, which then says what it lacks (\`node\`, gpvectl: --node)`,
  );
}
