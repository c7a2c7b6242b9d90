// A server sends a call for a guest to the node that has it. The node may hear a moment later that it does: a guest that
// has just moved is looked for once more before anybody says that it does not exist, and a node that has just begun waits
// for the first server.
import { messageOf } from "@gpve/contracts/errors.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import type { RequestLogger } from "@gpve/domain/request/context.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Records } from "@gpve/store/records/port.ts";

const PATIENCE_MS = 5_000;
const ASK_AGAIN_MS = 100;

export interface GuestArrivalDeps {
  readonly node: string;
  /** Throws store.unavailable while no server was in reach. */
  readonly records: () => Pick<Records, "collection" | "fresh">;
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
}

/** Never fails but by its signal: whoever looks for the guest then says what is wrong. */
export function guestArrival({ node, records, clock }: GuestArrivalDeps) {
  return async (vmid: string, signal: AbortSignal, log: Pick<RequestLogger, "warn">): Promise<void> => {
    const until = clock.monotonic() + PATIENCE_MS;
    for (;;) {
      try {
        const known = records();
        if (known.collection(guestCollection).get(vmid)?.value.node === node) return;
        await known.fresh({ signal });
        return;
      } catch (err) {
        signal.throwIfAborted();
        if (clock.monotonic() >= until) {
          log.warn({ vmid, err: messageOf(err) }, "no server says whether the guest is here");
          return;
        }
      }
      await clock.sleep(ASK_AGAIN_MS, signal);
    }
  };
}
