import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import { conflict } from "@gpve/domain/request/failures.ts";
import type { Clock } from "@gpve/kit/clock.ts";

export interface FindTicketPorts {
  readonly clock: Clock;
  readonly configs: { readonly node: string };
  readonly moves: {
    /** undefined = no server has allowed it, or it is over. */
    find(vmid: number, moveId: string): GuestMove | undefined;
  };
}

const PATIENCE_MS = 5_000;
const POLL_MS = 10;

/** The server that passed the request on has noted it; its note may take a moment to come here. */
export async function findTicket(
  host: FindTicketPorts,
  asked: { readonly vmid: number; readonly moveId: string; readonly target: string },
  { signal, refusal }: { readonly signal: AbortSignal; readonly refusal: string },
): Promise<GuestMove> {
  for (let waited = 0; waited < PATIENCE_MS; waited += POLL_MS) {
    const found = host.moves.find(asked.vmid, asked.moveId);
    if (found?.from.node === host.configs.node && found.to.node === asked.target) return found;
    await host.clock.sleep(POLL_MS, signal);
  }
  throw conflict(refusal);
}
