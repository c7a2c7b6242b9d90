// The agent of a node that answers as a test tells it, and otherwise behaves as one that is really reached.
import { AppError } from "@gpve/contracts/errors.ts";
import type { AgentCall, AgentConnection, AgentReply, OpenTunnel, TunnelRequest } from "../agent-port.ts";

export interface FakeAgentAnswers {
  readonly node?: string;
  readonly answer?: (call: AgentCall, signal: AbortSignal) => AgentReply | Promise<AgentReply>;
  /** Absent: the node offers no tunnels. */
  readonly open?: (
    request: TunnelRequest,
    input: AsyncIterable<Uint8Array>,
  ) => OpenTunnel | Promise<OpenTunnel>;
}

export class FakeAgent implements AgentConnection {
  readonly node: string;
  /** What arrived, in order. */
  readonly calls: AgentCall[] = [];
  readonly tunnels: TunnelRequest[] = [];
  answer: NonNullable<FakeAgentAnswers["answer"]>;
  tunnel?: NonNullable<AgentConnection["tunnel"]>;

  constructor({ node = "n1", answer = () => ({ data: undefined }), open }: FakeAgentAnswers = {}) {
    this.node = node;
    this.answer = answer;
    if (open !== undefined)
      this.tunnel = async (request, input, signal) => {
        if (signal.aborted) throw cancelled();
        this.tunnels.push(request);
        return await open(request, input);
      };
  }

  async call(call: AgentCall, signal: AbortSignal): Promise<AgentReply> {
    if (signal.aborted) throw cancelled();
    const { node = this.node } = call.params;
    if (node !== this.node) {
      const text = `call for node ${JSON.stringify(node)} arrived at node ${this.node}`;
      throw new AppError("internal.error", text);
    }
    this.calls.push(call);
    const { promise: given, reject } = Promise.withResolvers<never>();
    const onAbort = (): void => reject(cancelled());
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      return await Promise.race([this.answer(call, signal), given]);
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }
}

function cancelled(): AppError {
  return new AppError("operation.cancelled", "the request was cancelled");
}
