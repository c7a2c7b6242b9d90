// Ends what a node has open when it is not a member any more: a call is refused by itself, a stream that was opened
// before is not. Every server follows the records, so it does not matter which one was told to remove the node.
import type { NodeRecord } from "@gpve/domain/node/record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Collection } from "@gpve/store/records/port.ts";

/** After a renewal, calls on the connection with the old certificate may finish. */
export const RENEWED_GRACE_MS = 10_000;

export function hangUpOnRemoved(
  nodes: Pick<Collection<NodeRecord>, "onChange">,
  listener: { dropStrangers(): void },
  clock: Clock,
): () => void {
  /** From a node's first change on, whatever changes after it: who goes on changing gains no time by it. */
  const deadlines = new Map<string, () => void>();
  const stop = nodes.onChange((node, entry) => {
    if (entry === undefined) {
      listener.dropStrangers();
      return;
    }
    if (deadlines.has(node)) return;
    const end = (): void => {
      deadlines.delete(node);
      listener.dropStrangers();
    };
    deadlines.set(node, clock.after(RENEWED_GRACE_MS, end));
  });
  return () => {
    stop();
    for (const cancel of deadlines.values()) cancel();
    deadlines.clear();
  };
}
