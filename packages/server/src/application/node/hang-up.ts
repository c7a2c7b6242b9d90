// Ends what a node has open when it is not a member any more: a call is refused by itself, a stream that was opened
// before is not. Every server follows the records, so it does not matter which one was told to remove the node.
import type { NodeRecord } from "@gpve/domain/node/record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Collection } from "@gpve/store/records/port.ts";

/** After a renewal, calls on the connection with the old certificate may finish. */
const RENEWED_GRACE_MS = 10_000;

export function hangUpOnRemoved(
  nodes: Pick<Collection<NodeRecord>, "onChange">,
  listener: { dropStrangers(): void },
  clock: Clock,
): () => void {
  let cancel = (): void => undefined;
  const stop = nodes.onChange((_node, entry) => {
    if (entry === undefined) {
      listener.dropStrangers();
      return;
    }
    cancel();
    cancel = clock.after(RENEWED_GRACE_MS, () => listener.dropStrangers());
  });
  return () => {
    stop();
    cancel();
  };
}
