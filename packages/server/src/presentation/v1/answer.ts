// How a request of /api/v1 ends: its audit entry, its problem, its bytes.
import type { IncomingMessage, ServerResponse } from "node:http";
import { given } from "@gpve/contracts/given.ts";
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { PROBLEM_TYPE, problemOf } from "@gpve/contracts/v1/problem.ts";
import type { Problem } from "@gpve/contracts/v1/problem.ts";
import { V1_PREFIX } from "@gpve/contracts/v1/routes.ts";
import type { V1Route } from "@gpve/contracts/v1/routes.ts";
import { AgentUnreachable } from "@gpve/domain/node/agent-port.ts";
import type { Actor } from "@gpve/domain/request/context.ts";
import { secretFields, withoutSecrets } from "../../application/v1/secret-fields.ts";
import { ReadyJson } from "./object-json.ts";
import type { V1Deps } from "./ports.ts";

/** Wrong credentials are answered this late, so that guessing stays slow. */
const FAILURE_DELAY_MS = 3_000;

/** Everything one request has gathered on its way, for its answer, its audit entry and its metrics. */
export interface Progress {
  readonly requestId: string;
  readonly clientAddress: string;
  route: V1Route | undefined;
  params: Readonly<Record<string, string>>;
  actor: Actor | undefined;
  body: unknown;
}

export interface Answer {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly problem?: Problem;
}

export async function failure(
  deps: V1Deps,
  thrown: unknown,
  progress: Progress,
  startedAt: number,
): Promise<Answer> {
  const err =
    thrown instanceof AgentUnreachable
      ? new AppError("node.unavailable", thrown.message, { cause: thrown })
      : thrown;
  if (!isAppError(err) || err.kind === "internal") {
    deps.log.error(
      { err: err instanceof Error ? (err.stack ?? err.message) : String(err), requestId: progress.requestId },
      "a request of /api/v1 failed",
    );
  }
  if (isAppError(err, "auth.failed")) {
    await deps.delay(Math.max(0, FAILURE_DELAY_MS - (deps.clock.monotonic() - startedAt)));
  }
  return problemAnswer(err, progress.requestId);
}

/** What the audit log does not know is not acknowledged either. */
export async function audited(
  deps: V1Deps,
  req: IncomingMessage,
  progress: Progress,
  answer: Answer | "streamed",
): Promise<Answer | "streamed"> {
  const { route } = progress;
  const status = answer === "streamed" ? 200 : answer.status;
  if (route === undefined || (route.audit === "none" && status !== 403)) return answer;
  const body = withoutRouteSecrets(route, progress.body);
  const made = progress.params["name"] === undefined ? nameIn(body) : undefined;
  try {
    await deps.audit({
      requestId: progress.requestId,
      user: progress.actor?.authid ?? "",
      verb: route.method,
      resource: `${V1_PREFIX}${route.path}`,
      name: calledPath(route, progress.params),
      sourceIP: progress.clientAddress,
      userAgent: req.headers["user-agent"] ?? "",
      statusCode: status,
      message: answer === "streamed" ? "" : (answer.problem?.detail ?? ""),
      params: {
        ...progress.params,
        ...given({ name: made }),
        ...(route.audit === "write" && body !== undefined ? { body } : {}),
      },
    });
    return answer;
  } catch (err) {
    deps.log.error(
      { err: messageOf(err), requestId: progress.requestId },
      "the audit log could not be written",
    );
    if (answer === "streamed") return answer;
    const text = "the audit log cannot be written; the request may have been carried out all the same";
    return problemAnswer(new AppError("internal.error", text, { cause: err }), progress.requestId);
  }
}

export function send(req: IncomingMessage, res: ServerResponse, answer: Answer, requestId: string): void {
  if (res.destroyed || res.headersSent) {
    res.destroy();
    return;
  }
  const body =
    answer.body instanceof Uint8Array
      ? answer.body
      : Buffer.from(answer.body instanceof ReadyJson ? answer.body.text : JSON.stringify(answer.body));
  // An unread body would be taken for the next request.
  const unread = !req.complete;
  res.writeHead(answer.status, {
    "Content-Type": answer.problem === undefined ? "application/json" : PROBLEM_TYPE,
    "Content-Length": body.length,
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Request-Id": requestId,
    ...(unread ? { Connection: "close" } : {}),
    ...answer.headers,
  });
  res.end(body);
  if (unread) req.resume();
}

/** The body as hashes and audit may keep it. */
export function withoutRouteSecrets(route: V1Route, body: unknown): unknown {
  if (route.kind === undefined || typeof body !== "object" || body === null) return body;
  const secrets = secretFields(route.kind.spec, "body.spec");
  return secrets.size === 0 ? body : withoutSecrets(body, secrets, "body");
}

function problemAnswer(err: unknown, requestId: string): Answer {
  const problem = problemOf(err, requestId);
  return { status: problem.status, body: problem, problem };
}

/** The path that was called; a slash inside a name stays one segment. */
function calledPath(route: V1Route, params: Readonly<Record<string, string>>): string {
  const filled = route.path.replaceAll(/\{([^}]+)\}/g, (_all, name: string) =>
    (params[name] ?? "").replaceAll("/", "%2F"),
  );
  return `${V1_PREFIX}${filled}`;
}

function nameIn(body: unknown): string | undefined {
  const metadata = (body as { metadata?: { name?: unknown } } | null | undefined)?.metadata;
  return typeof metadata?.name === "string" ? metadata.name : undefined;
}
