import { given } from "@gpve/contracts/given.ts";
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import type { GuestAgent } from "@gpve/domain/vm/running/guest-agent.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { GuestAgentClient } from "./guest-agent-client.ts";

/** One conversation per running guest: the channel has no way to tell two speakers apart. */
export class ChannelGuestAgents {
  readonly #clients = new Map<
    string,
    { readonly process: GuestProcess; readonly client: GuestAgentClient }
  >();
  readonly #clock: Clock;

  constructor(options: { readonly clock: Clock }) {
    this.#clock = options.clock;
  }

  of(process: GuestProcess): GuestAgent {
    const known = this.#clients.get(process.id);
    if (known?.process === process) return known.client;
    known?.client.close();
    const client = new GuestAgentClient({
      path: process.socketPath("qga"),
      label: process.label,
      clock: this.#clock,
      ...given({ ownerUid: process.uid }),
    });
    this.#clients.set(process.id, { process, client });
    void process.exited.then(() => {
      client.close();
      if (this.#clients.get(process.id)?.process === process) this.#clients.delete(process.id);
    });
    return client;
  }

  close(): void {
    for (const { client } of this.#clients.values()) client.close();
    this.#clients.clear();
  }
}
