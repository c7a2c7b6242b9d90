// Lines from a node to TCP ports of its own guests.
import type { ConsoleSocket } from "./console-socket.ts";

export interface GuestCard {
  /** "net0" */
  readonly key: string;
  readonly mac: string;
  /** The kernel's name of its tap; there is none where the card is on no bridge. */
  readonly tap: string;
  /** The VLAN it is in, on a bridge that filters them. */
  readonly tag?: number;
}

export interface LineTarget {
  /** Whom refusals name: "VM 100". */
  readonly label: string;
  readonly cards: readonly GuestCard[];
  readonly port: number;
  /** Absent: one that the node sees at the guest's cards. */
  readonly address?: string;
}

export interface GuestLine {
  readonly address: string;
  readonly socket: ConsoleSocket;
}

/**
 * Dials a guest by what the node itself sees of it: neither its configuration nor its agent is asked for addresses. Whatever is
 * sent leaves the node by the guest's own taps and no other way. Rejects with AppError that says what was tried and why not.
 */
export interface GuestDialer {
  dial(target: LineTarget, signal: AbortSignal): Promise<GuestLine>;
}
