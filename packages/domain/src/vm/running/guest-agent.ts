// The agent inside a guest, as use cases see it.
import type { GuestProcess } from "../../guest/guest-processes.ts";

export interface GuestAgentCall {
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** Commands that end the guest's activity answer only when they fail. */
  readonly noReply?: boolean;
}

export interface GuestAgent {
  /**
   * One command at a time; others wait in line. Rejects with guest_agent.unavailable ("QEMU guest agent is not
   * running"), guest_agent.failed (the agent refused), request.timeout or operation.cancelled.
   */
  execute(
    command: string,
    args?: Readonly<Record<string, unknown>>,
    options?: GuestAgentCall,
  ): Promise<unknown>;
  /** Does it answer now? */
  isRunning(options?: GuestAgentCall): Promise<boolean>;
}

export interface GuestAgents {
  /** The agent inside a running VM; one conversation for all its users. */
  of(process: GuestProcess): GuestAgent;
}
