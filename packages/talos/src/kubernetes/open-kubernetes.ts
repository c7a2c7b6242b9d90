// The API server of a cluster, over TLS with a certificate of its administrators.
import { Agent, type AgentOptions, request as httpsRequest, type RequestOptions } from "node:https";
import { connect, type ConnectionOptions, type TLSSocket } from "node:tls";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { KubernetesAccess } from "../access/kubeconfig.ts";
import type { Dial } from "../client/ssh-jump.ts";
import { fromBase64 } from "../secrets/base64-text.ts";
import type { Kubernetes, KubernetesReply, KubernetesRequest } from "./kubernetes.ts";
import { RestKubernetes } from "./rest-kubernetes.ts";

const TIMEOUT_MS = 15_000;
/** Lists of large clusters; more is no answer of an API server. */
const MOST_BYTES = 256 * 1024 * 1024;

export interface KubernetesWay {
  readonly timeoutMs?: number;
  /** How it is reached where it is not routed from here. */
  readonly dial?: Dial;
}

type Way = Omit<KubernetesAccess, "clusterName">;

/** `access` may be asked anew for every request: another one opens other connections. */
export function openKubernetes(
  access: Way | (() => Way),
  { timeoutMs = TIMEOUT_MS, dial }: KubernetesWay = {},
): Kubernetes {
  const current = typeof access === "function" ? access : () => access;
  let opened: { readonly way: Way; readonly agent: Agent } | undefined;
  const agentFor = (way: Way): Agent => {
    if (opened?.way === way) return opened.agent;
    opened?.agent.destroy();
    opened = { way, agent: agentOf(way, dial) };
    return opened.agent;
  };
  const send = (request: KubernetesRequest) => {
    const way = current();
    return exchange(agentFor(way), way.server, request, timeoutMs);
  };
  return new RestKubernetes(send, () => opened?.agent.destroy());
}

function agentOf({ ca, crt, key }: Way, dial: Dial | undefined): Agent {
  const options: AgentOptions = {
    keepAlive: true,
    ca: fromBase64(ca),
    cert: fromBase64(crt),
    key: fromBase64(key),
    minVersion: "TLSv1.2",
  };
  return dial === undefined ? new Agent(options) : new DialingAgent(options, dial);
}

/** Its connections are made by somebody else. */
class DialingAgent extends Agent {
  readonly #dial: Dial;

  constructor(options: AgentOptions, dial: Dial) {
    super(options);
    this.#dial = dial;
  }

  override createConnection(options: RequestOptions): TLSSocket {
    const host = String(options.host ?? "");
    const socket = this.#dial({ host, port: Number(options.port ?? 443) });
    return connect({ ...(options as ConnectionOptions), host, socket });
  }
}

function exchange(
  agent: Agent,
  server: string,
  { method, path, body, contentType }: KubernetesRequest,
  timeoutMs: number,
): Promise<KubernetesReply> {
  return new Promise((resolve, reject) => {
    const fail = (cause: unknown): void =>
      reject(
        new AppError("node.unavailable", `Kubernetes at ${server} does not answer: ${messageOf(cause)}`, {
          cause,
        }),
      );
    const payload = body === undefined ? undefined : JSON.stringify(body);
    const headers = {
      accept: "application/json",
      ...(payload === undefined ? {} : { "content-type": contentType ?? "application/json" }),
    };
    const options = { method, agent, headers, signal: AbortSignal.timeout(timeoutMs) };
    const asked = httpsRequest(new URL(path, server), options, (response) => {
      const pieces: Buffer[] = [];
      let size = 0;
      response.on("data", (piece: Buffer) => {
        size += piece.length;
        if (size > MOST_BYTES) response.destroy(new Error("the answer is too large"));
        else pieces.push(piece);
      });
      response.on("error", fail);
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, body: parsed(Buffer.concat(pieces)) }),
      );
    });
    asked.on("error", fail);
    asked.end(payload);
  });
}

function parsed(bytes: Buffer): unknown {
  const text = bytes.toString("utf8");
  try {
    return text === "" ? {} : (JSON.parse(text) as unknown);
  } catch {
    return { message: text.slice(0, 200) };
  }
}
