// Calls to the agent of another node. Failures of the way there become PVE's proxy codes; failures of the method
// itself arrive as the agent threw them.
import { given } from "@gpve/contracts/given.ts";
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { AppError } from "@gpve/contracts/errors.ts";
import {
  AgentService,
  CallRequestSchema,
  type CallRequest,
  type CallStreamResponse,
  type ReplyHead,
  type TunnelResponse,
} from "@gpve/contracts/gen/proto/gpve/agent/v1/agent_pb.ts";
import type { Decision } from "@gpve/domain/access/decision.ts";
import {
  AgentUnreachable,
  type AgentCall,
  type AgentReply,
  type OpenTunnel,
  type TunnelRequest,
} from "@gpve/domain/node/agent-port.ts";
import { parseBoundedJson } from "@gpve/kit/bounded-json.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { appErrorOf } from "@gpve/kit/grpc/app-error.ts";
import { createChannel, nodeErrorCode, rootMessage, type Channel } from "@gpve/kit/grpc/channel.ts";
import { AGENT_ROLE } from "@gpve/kit/pki/x509.ts";

/** PVE's limit for a forwarded request. */
export const FORWARD_TIMEOUT_MS = 30_000;

/** How often an agent that is awaited is tried. */
const TRY_EVERY_MS = 200;

/** What a guest's own agent answers may be nested deeper than requests are. */
const ANSWER_DEPTH = 512;

export interface GrpcAgentOptions {
  readonly node: string;
  readonly address: string;
  readonly port: number;
  readonly tls: { readonly caPem: string; readonly certPem: string; readonly keyPem: string };
  /** Whether the node has the certificate with this fingerprint now, and not one that was replaced or revoked. */
  readonly isCurrent: (fingerprint: string) => boolean;
  /** Whether the agent has stopped and means to be back: then calls wait for it. */
  readonly isAwaited: () => boolean;
  readonly clock: Clock;
  readonly timeoutMs?: number;
  readonly connectTimeoutMs?: number;
}

export class GrpcAgent {
  readonly node: string;
  readonly #channel: Channel;
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  readonly #isAwaited: () => boolean;

  constructor(options: GrpcAgentOptions) {
    this.node = options.node;
    this.#clock = options.clock;
    this.#isAwaited = options.isAwaited;
    this.#timeoutMs = options.timeoutMs ?? FORWARD_TIMEOUT_MS;
    const host = options.address.includes(":") ? `[${options.address}]` : options.address;
    this.#channel = createChannel({
      url: `https://${host}:${options.port}`,
      tls: options.tls,
      clock: options.clock,
      connectTimeoutMs: options.connectTimeoutMs ?? 5_000,
      // Addresses change hands; the name on the certificate is what counts.
      acceptPeer: (_host, certificate) => {
        const { CN, O } = certificate.subject;
        if (CN !== options.node || O !== AGENT_ROLE) {
          const whose = `${String(O)} ${String(CN)}`;
          return new Error(`certificate is for ${whose}, not for the agent of ${options.node}`);
        }
        return options.isCurrent(certificate.fingerprint256)
          ? undefined
          : new Error(`certificate of the agent of ${options.node} was replaced or revoked`);
      },
    });
  }

  /** A call that an agent on its way out did not take is made again when it is back; so is a read that it cut off. */
  async call(call: AgentCall, signal: AbortSignal): Promise<AgentReply> {
    const end = this.#clock.monotonic() + this.#timeoutMs;
    for (;;) {
      await this.#connect(signal, end);
      try {
        return await this.#callOnce(call, signal);
      } catch (err) {
        const again = call.decision.route.startsWith("GET ") || wasRefused(err);
        if (!(err instanceof AgentUnreachable) || !again || !this.#isWorthWaiting(signal, end)) throw err;
        await this.#clock.sleep(TRY_EVERY_MS, signal);
      }
    }
  }

  async #callOnce(call: AgentCall, signal: AbortSignal): Promise<AgentReply> {
    // Until the head has arrived the whole call has a limit; a download may then take its time.
    const limit = new AbortController();
    const cancel = this.#clock.after(this.#timeoutMs, () => limit.abort());
    const client = createClient(AgentService, this.#channel.transport);
    const parts = client
      .callStream({ call: encodeCall(call) }, { signal: AbortSignal.any([signal, limit.signal]) })
      [Symbol.asyncIterator]();
    try {
      const first = await parts.next();
      if (first.done === true || first.value.part.case !== "head") {
        throw new AgentUnreachable(597, `agent of ${this.node} answered without a head`);
      }
      const head = first.value.part.value;
      const reply = decodeHead(head);
      if (head.download === undefined) {
        // Reads the trailers, so that the stream ends instead of being cut.
        await parts.next();
        return reply;
      }
      const { contentType, fileName } = head.download;
      return {
        ...reply,
        download: {
          contentType,
          ...given({ fileName }),
          body: this.#body(parts, signal),
        },
      };
    } catch (err) {
      throw limit.signal.aborted
        ? new AgentUnreachable(596, "Connection timed out", { cause: err })
        : this.#translate(err, signal, 596);
    } finally {
      cancel();
    }
  }

  async tunnel(
    request: TunnelRequest,
    input: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<OpenTunnel> {
    await this.#connect(signal, this.#clock.monotonic() + this.#timeoutMs);
    const client = createClient(AgentService, this.#channel.transport);
    const parts = client.tunnel(tunnelParts(request, input), { signal })[Symbol.asyncIterator]();
    try {
      const first = await parts.next();
      if (first.done === true || first.value.part.case !== "openedJson")
        throw new AgentUnreachable(597, `agent of ${this.node} opened nothing`);
      return {
        opened: parseBoundedJson(first.value.part.value, ANSWER_DEPTH),
        output: this.#body(parts, signal),
      };
    } catch (err) {
      throw this.#translate(err, signal, 596);
    }
  }

  close(): void {
    this.#channel.close();
  }

  async #connect(signal: AbortSignal, end: number): Promise<void> {
    for (;;) {
      try {
        await this.#channel.connect();
        return;
      } catch (err) {
        if (!this.#isWorthWaiting(signal, end)) throw connectFailure(err);
        await this.#clock.sleep(TRY_EVERY_MS, signal);
      }
    }
  }

  #isWorthWaiting(signal: AbortSignal, end: number): boolean {
    return !signal.aborted && this.#clock.monotonic() < end && this.#isAwaited();
  }

  async *#body(
    parts: AsyncIterator<CallStreamResponse | TunnelResponse>,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array> {
    try {
      for (let next = await parts.next(); next.done !== true; next = await parts.next()) {
        if (next.value.part.case === "chunk") yield next.value.part.value;
      }
    } catch (err) {
      throw this.#translate(err, signal, 597);
    } finally {
      await parts.return?.();
    }
  }

  #translate(err: unknown, signal: AbortSignal, phase: 596 | 597): Error {
    if (err instanceof AgentUnreachable) return err;
    const told = appErrorOf(err);
    if (told !== undefined) return told;
    if (signal.aborted)
      return new AppError("operation.cancelled", "the request was cancelled", { cause: err });
    const code = nodeErrorCode(err);
    const known = code === undefined ? undefined : texts[code];
    return new AgentUnreachable(phase, known ?? rootMessage(err), { cause: err });
  }
}

const texts: Readonly<Record<string, string>> = {
  ECONNREFUSED: "Connection refused",
  EHOSTUNREACH: "No route to host",
  ENETUNREACH: "Network is unreachable",
  ENOTFOUND: "Name or service not known",
  EAI_AGAIN: "Name or service not known",
  ETIMEDOUT: "Connection timed out",
  ECONNRESET: "Connection reset by peer",
  EPIPE: "Broken pipe",
};

/** The agent has not begun with it. */
function wasRefused(err: unknown): boolean {
  return /REFUSED_STREAM|GOAWAY|goaway/.test(rootMessage(err)) || nodeErrorCode(err) === "ECONNREFUSED";
}

const connectPhase = new Set([
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
  "ETIMEDOUT",
]);

export function connectFailure(err: unknown): AgentUnreachable {
  if (err instanceof AgentUnreachable) return err;
  const code = nodeErrorCode(err);
  const text = code === undefined ? undefined : texts[code];
  if (code !== undefined && connectPhase.has(code)) {
    return new AgentUnreachable(595, text ?? rootMessage(err), { cause: err });
  }
  if (err instanceof ConnectError && err.code === Code.DeadlineExceeded) {
    return new AgentUnreachable(595, "Connection timed out", { cause: err });
  }
  return new AgentUnreachable(596, text ?? rootMessage(err), { cause: err });
}

async function* tunnelParts(request: TunnelRequest, input: AsyncIterable<Uint8Array>) {
  const { decision, params, requestId } = request;
  yield {
    part: {
      case: "open" as const,
      value: {
        target: decision.route,
        paramsJson: JSON.stringify(params),
        requestId,
        ...encodeDecision(decision),
      },
    },
  };
  for await (const chunk of input) yield { part: { case: "chunk" as const, value: chunk } };
}

function encodeCall(call: AgentCall): CallRequest {
  return create(CallRequestSchema, {
    route: call.decision.route,
    paramsJson: JSON.stringify(call.params),
    requestId: call.requestId,
    clientAddress: call.clientAddress,
    source: call.source ?? "form",
    ...encodeDecision(call.decision),
    ...given({ traceparent: call.traceparent }),
  });
}

function encodeDecision({ route, actor, judged, work }: Decision) {
  const who = actor === undefined ? {} : { actor: { ...actor } };
  return { ...who, decision: { ...who, route, judged: { ...judged }, work: work ?? "" } };
}

function decodeHead(head: ReplyHead): AgentReply {
  return {
    data: head.dataJson === "" ? undefined : parseBoundedJson(head.dataJson, ANSWER_DEPTH),
    ...(head.total === undefined ? {} : { total: Number(head.total) }),
    ...given({ changes: head.changes }),
  };
}
