// A line to a TCP port of a VM: a websocket that is checked as any call of /api/v1, told to the audit log, and joined to the
// line that the VM's node opened. It ends with the right to it: whoever asked is judged anew whenever somebody's rights
// changed, and from time to time.
import type { IncomingMessage } from "node:http";
import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { WebSocket } from "ws";
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { PROBLEM_TYPE, problemOf } from "@gpve/contracts/v1/problem.ts";
import { V1_PREFIX } from "@gpve/contracts/v1/routes.ts";
import { vmTunnelRoute } from "@gpve/contracts/v1/vm-routes.ts";
import { AgentUnreachable } from "@gpve/domain/node/agent-port.ts";
import type { Actor } from "@gpve/domain/request/context.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Credentials } from "../../application/access/authenticator.ts";
import type { TunnelTo } from "../../application/node/call-agent.ts";
import type { AccessEpoch } from "../../application/v1/access-epoch.ts";
import { cookieTicket } from "../http/pve/pve-api.ts";
import type { PveApiDeps } from "../http/pve/ports.ts";
import { byteSockets, joinStreams, whenThere } from "../http/socket-stream.ts";
import { markKnown } from "../listener/known-peers.ts";
import { clientAddressOf, type IsProxy } from "../listener/trusted-proxies.ts";
import { readQuery } from "./match-route.ts";

export interface TunnelUpgradeDeps extends Pick<
  PveApiDeps,
  "authenticate" | "decide" | "accessOf" | "audit" | "calls" | "log" | "newRequestId" | "delay" | "fresh"
> {
  readonly isProxy: IsProxy;
  readonly clock: Pick<Clock, "after">;
  /** The node that owns the VM; undefined = there is none of that number. */
  readonly nodeOf: (vmid: number) => string | undefined;
  readonly epoch: Pick<AccessEpoch, "onChange">;
}

type Line = TunnelTo<typeof ROUTE>;

interface Asked {
  readonly requestId: string;
  readonly credentials: Credentials;
  readonly vmid: string;
  actor: Actor | undefined;
  /** For the audit log, as far as it is known. */
  params: Readonly<Record<string, unknown>>;
}

const ROUTE = "TUNNEL /gpve/nodes/{node}/vms/{vmid}/port";
const MAX_FRAME_BYTES = 1024 * 1024;
const KEEP_ALIVE_MS = 30_000;
const JUDGE_EVERY_MS = 30_000;
/** Wrong credentials are answered this late, so that guessing stays slow. */
const FAILURE_DELAY_MS = 3_000;
const POLICY_VIOLATION = 1008;
const MAX_REASON_BYTES = 120;

/** No segment of such a path is ever encoded. */
const PATH = /^\/api\/v1\/virtualmachines\/([1-9]\d{0,8})\/tunnel$/;

/** Whether it is about such a line: everything else is somebody else's. */
export function isTunnelUpgrade(req: IncomingMessage): boolean {
  return vmidIn(req) !== undefined;
}

export function createTunnelUpgrade(
  deps: TunnelUpgradeDeps,
): (req: IncomingMessage, socket: Socket, head: Buffer) => void {
  const server = byteSockets(MAX_FRAME_BYTES);
  return (req, socket, head) => {
    socket.on("error", () => socket.destroy());
    background(deps.log, "a line to a VM", serve(req, socket, head));
  };

  async function serve(req: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
    const abort = new AbortController();
    socket.once("close", () => abort.abort());
    const client = Promise.withResolvers<AsyncIterable<Uint8Array>>();
    const asked = askedOf(deps, req);
    let line: Line;
    try {
      line = await open(req, asked, whenThere(client.promise), abort.signal);
      asked.params = { ...asked.params, address: line.opened.address };
      // What the audit log does not know does not begin.
      await tell(req, asked, 101, "");
    } catch (err) {
      abort.abort();
      await refuse(req, socket, asked, err);
      return;
    }
    socket.setNoDelay(true);
    socket.setKeepAlive(true, KEEP_ALIVE_MS);
    server.handleUpgrade(req, socket, head, (ws) => {
      const stop = keepJudging(ws, asked, abort);
      const joined = joinStreams(ws, line.output, client.resolve).finally(() => {
        stop();
        abort.abort();
      });
      background(deps.log, "a line to a VM", joined);
    });
  }

  /** The order is that of every other call: who, may they, is it well formed; then the node. */
  async function open(
    req: IncomingMessage,
    asked: Asked,
    input: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<Line> {
    const access = await judge(asked);
    markKnown(req.socket);
    const query = readQuery(vmTunnelRoute, (req.url ?? "").split(/\?(.*)/s, 2)[1] ?? "");
    const { port: portText, address } = query as Partial<Record<string, string>>;
    const [vmid, port] = [Number(asked.vmid), Number(portText ?? 0)];
    if (port === 0)
      throw new AppError("request.invalid", "query parameter 'port' must be a TCP port, from 1 to 65535", {
        errors: { port: "must be a TCP port, from 1 to 65535" },
      });
    asked.params = { ...asked.params, port, ...given({ address }) };
    await deps.fresh(signal);
    const node = deps.nodeOf(vmid);
    if (node === undefined) throw new AppError("object.not_found", `there is no VM ${vmid}`);
    asked.params = { ...asked.params, node };
    const { requestId, actor, credentials } = asked;
    const asking = { actor, access, requestId, clientAddress: credentials.clientAddress, signal };
    const params = { vmid, port, ...given({ address }) };
    return deps.calls.tunnel(node, ROUTE, params, input, asking);
  }

  /** Throws unless they are who they were and may use the VM's console. */
  async function judge(asked: Asked): Promise<ReturnType<PveApiDeps["accessOf"]>> {
    const { actor } = await deps.authenticate(asked.credentials);
    if (actor === undefined || (asked.actor !== undefined && actor.authid !== asked.actor.authid))
      throw new AppError("auth.required", "this needs credentials: log in or send an API token");
    asked.actor = actor;
    const access = deps.accessOf(actor);
    deps.decide(ROUTE, { vmid: asked.vmid }, { actor, access });
    return access;
  }

  function keepJudging(ws: WebSocket, asked: Asked, abort: AbortController): () => void {
    let cancel: () => void = () => undefined;
    const look = (): void => {
      cancel();
      cancel = deps.clock.after(JUDGE_EVERY_MS, look);
      const judged = judge(asked).then(
        () => undefined,
        (err: unknown) => {
          const reason = Buffer.from(`the right to this line is gone: ${messageOf(err)}`);
          ws.close(POLICY_VIOLATION, reason.subarray(0, MAX_REASON_BYTES).toString("latin1"));
          abort.abort();
        },
      );
      background(deps.log, "judging a line to a VM", judged);
    };
    cancel = deps.clock.after(JUDGE_EVERY_MS, look);
    const stopListening = deps.epoch.onChange(look);
    return () => {
      cancel();
      stopListening();
    };
  }

  async function refuse(req: IncomingMessage, socket: Socket, asked: Asked, thrown: unknown): Promise<void> {
    const err =
      thrown instanceof AgentUnreachable
        ? new AppError("node.unavailable", thrown.message, { cause: thrown })
        : thrown;
    if (!isAppError(err) || err.kind === "internal")
      deps.log.error({ err: messageOf(err), requestId: asked.requestId }, "a line to a VM failed");
    if (isAppError(err, "auth.failed")) await deps.delay(FAILURE_DELAY_MS);
    const problem = problemOf(err, asked.requestId);
    await tell(req, asked, problem.status, problem.detail).catch((cause: unknown) =>
      deps.log.error(
        { err: messageOf(cause), requestId: asked.requestId },
        "the audit log could not be written",
      ),
    );
    const body = JSON.stringify(problem);
    socket.end(
      `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status] ?? problem.title}\r\nConnection: close\r\nContent-Type: ${PROBLEM_TYPE}\r\nX-Request-Id: ${asked.requestId}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    );
  }

  function tell(req: IncomingMessage, asked: Asked, statusCode: number, message: string): Promise<void> {
    const path = `${V1_PREFIX}${vmTunnelRoute.path}`;
    return deps.audit({
      requestId: asked.requestId,
      user: asked.actor?.authid ?? "",
      verb: "GET",
      resource: path,
      name: path.replace("{vmid}", asked.vmid),
      sourceIP: asked.credentials.clientAddress,
      userAgent: req.headers["user-agent"] ?? "",
      statusCode,
      message,
      params: asked.params,
    });
  }
}

function askedOf({ newRequestId, isProxy }: TunnelUpgradeDeps, req: IncomingMessage): Asked {
  const csrf = req.headers["csrfpreventiontoken"];
  const vmid = vmidIn(req) ?? "";
  return {
    requestId: newRequestId(),
    vmid,
    actor: undefined,
    params: { vmid },
    credentials: {
      // As a change: with a ticket the proof that no other page asks for it, which may send the browser's cookie along.
      method: "POST",
      path: (req.url ?? "").split("?", 1)[0] ?? "",
      cookieTicket: cookieTicket(req.headers.cookie),
      authorization: req.headers.authorization,
      csrfToken: Array.isArray(csrf) ? csrf[0] : csrf,
      clientAddress: clientAddressOf(req, isProxy),
    },
  };
}

function vmidIn(req: IncomingMessage): string | undefined {
  return PATH.exec((req.url ?? "").split("?", 1)[0] ?? "")?.[1];
}
