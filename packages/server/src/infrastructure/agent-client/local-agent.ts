// The agent of this very process behind the same contract as a remote one.
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type {
  AgentCall,
  AgentConnection,
  AgentReply,
  OpenTunnel,
  TunnelRequest,
} from "@gpve/domain/node/agent-port.ts";

export class LocalAgent implements AgentConnection {
  readonly node: string;
  readonly #agent: AgentConnection;

  constructor(agent: AgentConnection) {
    this.node = agent.node;
    this.#agent = agent;
  }

  async call(call: AgentCall, signal: AbortSignal): Promise<AgentReply> {
    if (signal.aborted) throw cancelled();
    try {
      return await this.#agent.call(call, signal);
    } catch (cause) {
      // Over a network nobody would hear how it ended either.
      throw signal.aborted ? cancelled(cause) : cause;
    }
  }

  async tunnel(
    request: TunnelRequest,
    input: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<OpenTunnel> {
    if (this.#agent.tunnel === undefined)
      throw new AppError("feature.unsupported", `node ${this.node} offers no tunnels`);
    return await this.#agent.tunnel(request, input, signal);
  }
}

function cancelled(cause?: unknown): AppError {
  return new AppError("operation.cancelled", "the request was cancelled", given({ cause }));
}
