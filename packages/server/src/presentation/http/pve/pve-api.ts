// /api2: from an HTTP request to a PVE answer. The order of the checks is part of the contract:
// method, path, authentication and CSRF (401), body rules (501/506), formatter (501), JSON (500), handler (501),
// conflicting parameters (400), token allowed (403), permission (403), then execution where the method runs.
import type { IncomingMessage, ServerResponse } from "node:http";
import { given } from "@gpve/contracts/given.ts";
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import type { PveMethod } from "@gpve/contracts/pve/schema.ts";
import { findMethod } from "@gpve/domain/schema/method-table.ts";
import { PveReply } from "@gpve/domain/request/handler.ts";
import { background } from "@gpve/kit/background.ts";
import { roomIn } from "@gpve/kit/stream-room.ts";
import { markKnown } from "../../listener/known-peers.ts";
import { bodyTerms, NO_ROOM_FOR_BODY, readBody, type BodyTerms } from "../read-body.ts";
import { respond, sayAge, type Answer } from "../respond.ts";
import { auditOf } from "./audit-event.ts";
import { execute } from "./execute.ts";
import { toFailure } from "./failure.ts";
import { formatters, type PveResult } from "./formats.ts";
import { splitApiPath, type ApiPath } from "./path.ts";
import type { Authenticated } from "../../../application/access/authenticator.ts";
import type { PveApiDeps } from "./ports.ts";
import type { ReadyRead } from "./ready-reads.ts";
import { receiveUpload, uploadTarget, UploadFailed, type ReceivedUpload } from "./upload.ts";
import { bodyKind, collectParams, mergePathParams, type RawParams } from "./request-params.ts";

const MAX_HEADER_FIELDS = 62;
/** Failed authentication is answered this late, so that guessing stays slow. */
const FAILURE_DELAY_MS = 3_000;

export interface PveApi {
  (req: IncomingMessage, res: ServerResponse, clientAddress: string): Promise<void>;
  /** Answers at once what is ready; false = it was not. */
  answerReady(req: IncomingMessage, res: ServerResponse): boolean;
}

/** A transport error: plain text or nothing, never the envelope. */
class TransportError extends Error {
  readonly status: number;
  readonly withBody: boolean;
  readonly delayMs: number;
  constructor(status: number, message: string, options: { withBody?: boolean; delayMs?: number } = {}) {
    super(message);
    this.status = status;
    this.withBody = options.withBody ?? true;
    this.delayMs = options.delayMs ?? 0;
  }
}

interface Resolved {
  readonly method: PveMethod;
  readonly params: Record<string, unknown>;
  readonly source: "form" | "json";
}

export function createPveApi(deps: PveApiDeps): PveApi {
  return Object.assign(wholeWay(deps), {
    answerReady: (req: IncomingMessage, res: ServerResponse): boolean => {
      const startedAt = performance.now();
      const read = deps.ready()?.find(req);
      if (read === undefined) return false;
      background(deps.log, "a ready answer", respond(req, res, read.answer));
      deps.observe(read.route, "GET", 200, (performance.now() - startedAt) / 1000);
      return true;
    },
  });
}

function wholeWay(deps: PveApiDeps): (...request: Parameters<PveApi>) => Promise<void> {
  return async (req, res, clientAddress) => {
    const startedAt = performance.now();
    const method = req.method ?? "";
    const [rawPath, query] = splitOnce(req.url ?? "", "?");
    const path = splitApiPath(rawPath);
    const requestId = deps.newRequestId();
    let route = "unmatched";
    let answer: Answer;
    try {
      checkTransport(req, method, path);
      const auth = await authenticate(deps, req, method, path, clientAddress);
      if (auth.actor !== undefined) markKnown(req.socket);
      const upload = await readUpload(deps, req, method, path, auth);
      const raw =
        upload === undefined
          ? await readParams(req, method, path, query, bodyTerms(auth.actor, clientAddress))
          : { params: upload.params, source: "form" as const };
      // Only this server names files of the node: a client's own would be a file of somebody else.
      if (upload === undefined && uploadTarget(method, path.segments) !== undefined)
        delete raw.params["tmpfilename"];
      const formatter = formatters.get(path.format ?? "");
      if (formatter === undefined) throw new Error("checked by readParams");
      const abort = new AbortController();
      res.on("close", () => {
        // Also comes after every complete answer, when there is nothing left to cancel.
        if (res.writableEnded) return;
        abort.abort(new AppError("operation.cancelled", "the client closed the connection"));
      });
      const call = { auth, requestId, clientAddress, signal: abort.signal };
      const { result, resolved } = await run(deps, method, path, raw, call);
      if (resolved !== undefined) route = resolved.method.path;
      if (result instanceof PveReply && result.download !== undefined) {
        await sendDownload(res, result.download);
        deps.observe(route, method, 200, (performance.now() - startedAt) / 1000);
        return;
      }
      const outcome = asResult(result);
      if (!outcome.ok) await upload?.discard();
      await deps.audit(auditOf({ req, method, path, resolved, outcome, auth, requestId, clientAddress }));
      if (!outcome.ok && outcome.status === 401) {
        await deps.delay(Math.max(0, FAILURE_DELAY_MS - (performance.now() - startedAt)));
      }
      answer = formatter(outcome, path.relative);
      if (method === "GET" && auth.actor !== undefined && auth.holds !== undefined)
        keepReady(deps, req, auth.actor.authid, { answer, route, holds: auth.holds }, result, resolved);
    } catch (err) {
      const failure = err instanceof TransportError ? err : new TransportError(500, messageOf(err));
      if (!(err instanceof TransportError))
        deps.log.error({ err: messageOf(err), path: path.relative }, "request failed");
      if (failure.delayMs > 0) await deps.delay(failure.delayMs);
      answer = {
        status: failure.status,
        reason: failure.message,
        ...(failure.withBody ? { body: Buffer.from(failure.message) } : {}),
      };
    }
    sayAge(method, res, deps.ageSeconds());
    await respond(req, res, answer);
    // A body nobody read would otherwise keep the closed connection busy.
    if (answer.status >= 400) req.resume();
    deps.observe(route, method, answer.status, (performance.now() - startedAt) / 1000);
  };
}

function keepReady(
  deps: PveApiDeps,
  req: IncomingMessage,
  authid: string,
  read: Omit<ReadyRead, "isSame">,
  result: unknown,
  resolved: Resolved | undefined,
): void {
  const ready = deps.ready();
  if (ready === undefined) return;
  ready.proven(req, authid, read.holds);
  if (read.answer.status !== 200 || !(result instanceof PveReply)) return;
  const { sameWhile } = result;
  const node = resolved?.params["node"];
  if (sameWhile === undefined) return;
  // As for the whole way: a node that was removed has nothing any more.
  const isThere = typeof node === "string" && node !== "localhost" ? () => deps.knowsNode(node) : () => true;
  ready.keep(req, authid, { ...read, isSame: () => isThere() && sameWhile() });
}

function checkTransport(req: IncomingMessage, method: string, path: ApiPath): void {
  if (!["GET", "POST", "PUT", "DELETE"].includes(method)) {
    throw new TransportError(501, `method '${method}' not available`, { withBody: false });
  }
  if (req.rawHeaders.length / 2 > MAX_HEADER_FIELDS)
    throw new TransportError(431, "Too many http header lines");
  const coding = req.headers["transfer-encoding"];
  if (coding !== undefined) {
    const text =
      coding.toLowerCase() === "chunked"
        ? "chunked transfer encoding not supported"
        : `Unknown transfer encoding '${coding}'`;
    throw new TransportError(501, text);
  }
  if (path.format === undefined) throw new TransportError(501, "no such uri");
}

async function authenticate(
  deps: PveApiDeps,
  req: IncomingMessage,
  method: string,
  path: ApiPath,
  clientAddress: string,
): Promise<Authenticated> {
  try {
    return await deps.authenticate({
      method,
      path: `/${path.segments.join("/")}`,
      cookieTicket: cookieTicket(req.headers.cookie),
      authorization: req.headers.authorization,
      csrfToken: single(req.headers["csrfpreventiontoken"]),
      clientAddress,
    });
  } catch (err) {
    const failure = toFailure(err);
    throw new TransportError(failure.status, failure.message, { withBody: false, delayMs: FAILURE_DELAY_MS });
  }
}

/** The one method that takes a form of files. Its permission is checked before the body is read. */
async function readUpload(
  deps: PveApiDeps,
  req: IncomingMessage,
  method: string,
  path: ApiPath,
  auth: Authenticated,
): Promise<ReceivedUpload | undefined> {
  const target = uploadTarget(method, path.segments);
  if (target === undefined || bodyKind(req.headers["content-type"]) !== "multipart") return undefined;
  const found = findMethod(method, path.segments);
  const length = Number(req.headers["content-length"] ?? Number.NaN);
  if (found.kind !== "found" || !formatters.has(path.format ?? "")) return undefined;
  const subject = { actor: auth.actor, access: deps.accessOf(auth.actor) };
  try {
    deps.decide(found.key, target, subject);
  } catch (err) {
    const { status, message } = toFailure(err);
    throw new TransportError(status, message, { withBody: false, delayMs: FAILURE_DELAY_MS });
  }
  if (!Number.isSafeInteger(length)) throw new TransportError(411, "Length Required");
  try {
    return await receiveUpload(req, deps.uploads, { ...target, ...subject }, length);
  } catch (err) {
    if (err instanceof UploadFailed) throw new TransportError(500, err.message);
    const { status, message } = toFailure(err);
    throw new TransportError(status, message);
  }
}

async function readParams(
  req: IncomingMessage,
  method: string,
  path: ApiPath,
  query: string,
  terms: BodyTerms,
): Promise<RawParams> {
  const length = Number(req.headers["content-length"] ?? 0);
  if (length > 0 && method !== "PUT" && method !== "POST") {
    throw new TransportError(501, `Unexpected content for method '${method}'`);
  }
  if (length > terms.bytes) throw new TransportError(501, "for data too large");
  const kind = bodyKind(req.headers["content-type"]);
  if (length > 0 && (kind === "other" || kind === "multipart")) {
    throw new TransportError(506, `upload 'Content-Type '${req.headers["content-type"]}' not implemented`);
  }
  const read = await readBody(req, terms);
  if (!read.ok && read.why === "no-room") throw new TransportError(503, NO_ROOM_FOR_BODY);
  if (!read.ok) throw new TransportError(501, "for data too large");
  if (!formatters.has(path.format ?? "")) {
    throw new TransportError(501, `no formatter for uri ${path.relative}, ${path.format}`);
  }
  try {
    return collectParams(query, read.body, kind);
  } catch (err) {
    throw new TransportError(isAppError(err, "request.invalid") ? 400 : 500, messageOf(err));
  }
}

/** PVE answers it, though its own description of the API leaves it out; clients try their login with it. */
const ROOT_INDEX = ["version", "cluster", "nodes", "storage", "access", "pools"].map((subdir) => ({
  subdir,
}));

interface CallInfo {
  readonly auth: Authenticated;
  readonly requestId: string;
  readonly clientAddress: string;
  readonly signal: AbortSignal;
}

async function run(
  deps: PveApiDeps,
  verb: string,
  path: ApiPath,
  raw: RawParams,
  call: CallInfo,
): Promise<{ result: unknown; resolved: Resolved | undefined }> {
  let resolved: Resolved | undefined;
  try {
    if (verb === "GET" && path.segments.length === 0)
      return { result: new PveReply({ data: ROOT_INDEX }), resolved };
    const found = findMethod(verb, path.segments);
    if (found.kind !== "found") {
      throw new AppError(
        "feature.unsupported",
        `Method '${verb} ${path.relative === "" ? "/" : path.relative}' not implemented`,
      );
    }
    mergePathParams(raw.params, found.pathParams);
    resolved = { method: found.method, params: raw.params, source: raw.source };
    checkToken(found.method, path, call.auth);
    const result = await execute(deps, { ...resolved, ...call, path: path.relative });
    return { result, resolved };
  } catch (err) {
    const failure = toFailure(err);
    if (failure.status === 500 && !isAppError(err)) {
      deps.log.error(
        { err: err instanceof Error ? err.stack : String(err), requestId: call.requestId },
        "handler failed",
      );
    }
    return { result: failure, resolved };
  }
}

function checkToken(method: PveMethod, path: ApiPath, auth: Authenticated): void {
  if (auth.via !== "token" || method.allowtoken) return;
  throw new AppError(
    "access.denied",
    `Permission check failed (URI '${path.relative}' not available with API token, need proper ticket.\n)`,
  );
}

function asResult(result: unknown): PveResult {
  if (result instanceof PveReply) {
    return {
      ok: true,
      data: result.data,
      ...given({ total: result.total, changes: result.changes, rawJson: result.rawJson }),
    };
  }
  return result as PveResult;
}

async function sendDownload(res: ServerResponse, download: NonNullable<PveReply["download"]>): Promise<void> {
  res.writeHead(200, "OK", {
    "Content-Type": download.contentType,
    "Cache-Control": "max-age=0",
    Server: "pve-api-daemon/3.0",
    ...(download.fileName === undefined
      ? {}
      : { "Content-Disposition": `attachment; filename="${download.fileName.replaceAll(/[^\w.-]/g, "_")}"` }),
  });
  try {
    for await (const chunk of download.body) {
      if (res.destroyed) return;
      if (!res.write(chunk)) await roomIn(res);
    }
  } catch (err) {
    // Too late for another answer: cut off, nobody takes it for the whole.
    res.destroy();
    throw err;
  }
  res.end();
}

export function cookieTicket(header: string | undefined): string | undefined {
  if (header === undefined) return undefined;
  return /(?:^|[;\s])PVEAuthCookie=([^;\s]*)/.exec(header)?.[1];
}

function single(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}

function splitOnce(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}
