// Turns a refused request into the platform's one error type, whichever face answered.
import { given } from "@gpve/contracts/given.ts";
import { AppError, type AppErrorOptions, type ErrorCode, errorCodes } from "@gpve/contracts/errors.ts";
import { isObject } from "@gpve/contracts/json-object.ts";
import type { HttpResponse } from "./transport.ts";

// Whoever calls reads the answers with it.
export { isObject };

/** What was asked, for the message's data. */
export interface Asked {
  readonly method: string;
  readonly path: string;
}

export async function responseError(
  response: Pick<HttpResponse, "status" | "reason" | "headers" | "text">,
  asked: Asked,
): Promise<AppError> {
  const text = await response.text();
  const body = parseObject(text);
  const problem = (response.headers["content-type"] ?? "").startsWith("application/problem+json");
  return problem && body !== undefined
    ? problemError(response, body, asked)
    : pveError(response.status, response.reason, body ?? {}, text, asked);
}

/** A PVE refusal: status, reason phrase, and (mostly) `{data:null, message, errors}`. */
export function pveError(
  status: number,
  reason: string,
  body: Readonly<Record<string, unknown>>,
  text: string,
  asked: Asked,
): AppError {
  const message = firstText(
    body["message"],
    reason,
    body["message"] === undefined ? text : "",
    `HTTP ${status}`,
  );
  return new AppError(pveCode(status, message), message, options(status, body["errors"], asked));
}

function problemError(
  response: Pick<HttpResponse, "status" | "reason">,
  body: Readonly<Record<string, unknown>>,
  asked: Asked,
): AppError {
  const message = firstText(body["detail"], body["title"], response.reason, `HTTP ${response.status}`);
  const code = body["code"];
  return new AppError(
    isErrorCode(code) ? code : pveCode(response.status, message),
    message,
    options(response.status, body["errors"], asked, isObject(body["data"]) ? body["data"] : {}),
  );
}

function options(
  status: number,
  errors: unknown,
  asked: Asked,
  data: Readonly<Record<string, unknown>> = {},
): AppErrorOptions {
  const map = textMap(errors);
  return {
    data: { ...data, status, method: asked.method, path: asked.path },
    pveStatus: status,
    ...given({ errors: map }),
  };
}

// PVE answers 500 for most refusals; the texts clients match on tell them apart.
const TEXTS: readonly (readonly [RegExp, ErrorCode])[] = [
  [/does not exist|^no such |not found|unable to find/i, "object.not_found"],
  [/already exists|already defined/i, "object.exists"],
  [/checksum mismatch|detected modified configuration/i, "object.conflict"],
  [/is locked \(|got timeout|can't lock file|\block(ed)? by/i, "resource.busy"],
  [/no space left|not enough space|out of space/i, "capacity.exceeded"],
];

function pveCode(status: number, message: string): ErrorCode {
  switch (status) {
    case 400:
    case 413:
    case 415:
    case 422:
    case 506:
      return "request.invalid";
    case 401:
      return message.startsWith("No ticket") ? "auth.required" : "auth.failed";
    case 403:
      return "access.denied";
    case 404:
      return "object.not_found";
    case 409:
    case 412:
      return /already exists/i.test(message) ? "object.exists" : "object.conflict";
    case 410:
      return "store.compacted";
    case 423:
      return "resource.busy";
    case 501:
      return "feature.unsupported";
    case 502:
    case 503:
      return "store.unavailable";
    case 504:
      return "request.timeout";
    case 507:
      return "capacity.exceeded";
    default:
      break;
  }
  if (status >= 595 && status <= 599) return "node.unavailable";
  return TEXTS.find(([pattern]) => pattern.test(message))?.[1] ?? "internal.error";
}

export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === "string" && Object.hasOwn(errorCodes, value);
}

function parseObject(text: string): Readonly<Record<string, unknown>> | undefined {
  if (!text.startsWith("{")) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function firstText(...candidates: readonly unknown[]): string {
  for (const candidate of candidates) {
    if (typeof candidate === "string" && candidate.trim() !== "") return candidate.trim();
  }
  return "";
}

/** `errors` is PVE's map, or a list of {path, message} as problem bodies may carry. */
function textMap(value: unknown): Readonly<Record<string, string>> | undefined {
  const pairs: [string, string][] = [];
  if (Array.isArray(value)) {
    for (const entry of value as readonly unknown[]) {
      if (!isObject(entry)) continue;
      const where = entry["path"] ?? entry["pointer"] ?? entry["field"] ?? "_root";
      const why = entry["message"] ?? entry["detail"] ?? entry["reason"];
      if (typeof where === "string" && typeof why === "string") pairs.push([where, why]);
    }
  } else if (isObject(value)) {
    for (const [key, why] of Object.entries(value)) {
      if (typeof why === "string") pairs.push([key, why.trim()]);
    }
  }
  return pairs.length === 0 ? undefined : Object.fromEntries(pairs);
}
