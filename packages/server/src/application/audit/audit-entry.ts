import { given } from "@gpve/contracts/given.ts";
import type { AuditEntry } from "@gpve/domain/audit/audit-log.ts";
import type { Actor } from "@gpve/domain/request/context.ts";
import { redact, redactText } from "@gpve/kit/redact.ts";

/** What a face knows about a request when it has been answered. */
export interface AnsweredRequest {
  readonly at: number;
  readonly requestId: string;
  readonly actor: Actor | undefined;
  readonly userGroups: readonly string[];
  readonly method: string;
  /** The declared path, "/access/users/{userid}". */
  readonly path: string;
  /** Path parameters, query and body together. */
  readonly params: Readonly<Record<string, unknown>>;
  readonly clientAddress: string;
  readonly userAgent: string;
  readonly status: number;
  /** The reason phrase or problem title; empty when all is well. */
  readonly message: string;
  /** "secret": the request is kept, its parameters are not. */
  readonly audit: "none" | "read" | "write" | "secret";
}

const VERBS: Readonly<Record<string, string>> = {
  GET: "read",
  HEAD: "read",
  POST: "create",
  PUT: "update",
  PATCH: "update",
  DELETE: "delete",
};

const MAX_TEXT = 2_048;
const MAX_EXTRA = 16 * 1024;

export function auditEntry(request: AnsweredRequest): AuditEntry {
  const { params, path } = request;
  const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => name);
  const last = named.findLast((name) => name !== "node") ?? named.at(-1);
  const tried = isLogin(path) ? textOf(params["username"]) : "";
  const extra = extraOf(request, named);
  return {
    timestamp: new Date(request.at).toISOString(),
    requestId: request.requestId,
    user: clipped(request.actor?.authid ?? tried),
    userGroups: request.userGroups,
    verb: isLogin(path) ? "login" : (VERBS[request.method] ?? request.method.toLowerCase()),
    resource: path,
    name: clipped(textOf(last === undefined ? createdName(params) : params[last])),
    namespace: clipped(textOf(params["pool"] ?? params["poolid"] ?? params["tenant"])),
    sourceIP: request.clientAddress,
    userAgent: clipped(request.userAgent),
    statusCode: request.status,
    message: clipped(redactText(request.message)),
    ...given({ extra }),
  };
}

function isLogin(path: string): boolean {
  return path === "/access/ticket" || path === "/access/openid/login";
}

/** What a POST to a collection makes is named in its body. */
function createdName(params: AnsweredRequest["params"]): unknown {
  const names = ["userid", "groupid", "roleid", "poolid", "realm", "vmid", "storage", "name"];
  return names.map((name) => params[name]).find((value) => value !== undefined);
}

function extraOf(request: AnsweredRequest, named: readonly string[]): AuditEntry["extra"] {
  if (request.audit === "secret") {
    const places = Object.fromEntries(named.map((name) => [name, request.params[name]]));
    return named.length === 0 ? undefined : { params: redact(places) };
  }
  if (Object.keys(request.params).length === 0) return undefined;
  const params = redact(request.params);
  const size = JSON.stringify(params).length;
  return size > MAX_EXTRA ? { params: `[${size} characters left out]` } : { params };
}

function textOf(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

function clipped(text: string): string {
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}...` : text;
}
