// From body and query to one parameter map, before anything is known about the method.
import { parameterError } from "@gpve/domain/request/failures.ts";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { parseBoundedJson } from "@gpve/kit/bounded-json.ts";
import { parseForm } from "../form.ts";

export interface RawParams {
  readonly params: Record<string, unknown>;
  readonly source: "form" | "json";
}

export type BodyKind = "form" | "json" | "multipart" | "other";

export function bodyKind(contentType: string | undefined): BodyKind {
  if (contentType === undefined) return "form";
  const type = contentType.split(";", 1)[0]?.trim().toLowerCase() ?? "";
  if (type === "" || type === "application/x-www-form-urlencoded") return "form";
  if (type === "application/json") return "json";
  if (type === "multipart/form-data") return "multipart";
  return "other";
}

/** Query parameters win over body parameters; `_dc` only defeats browser caches. Throws on malformed JSON. */
export function collectParams(query: string, body: Buffer, kind: BodyKind): RawParams {
  const params: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
  let source: "form" | "json" = "form";
  if (body.length > 0) {
    if (kind === "json") {
      source = "json";
      Object.assign(params, parseJsonObject(body));
    } else {
      Object.assign(params, parseForm(body.toString("utf8")));
    }
  }
  Object.assign(params, parseForm(query));
  delete params["_dc"];
  return { params, source };
}

function parseJsonObject(body: Buffer): Record<string, unknown> {
  let value: unknown;
  try {
    value = parseBoundedJson(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch (cause) {
    if (isAppError(cause)) throw cause;
    throw new AppError("internal.error", "malformed JSON string in request body", { cause, pveStatus: 500 });
  }
  if (value === null) return {};
  if (typeof value !== "object" || Array.isArray(value)) {
    throw new AppError("internal.error", "malformed JSON string in request body: expected an object", {
      pveStatus: 500,
    });
  }
  return value as Record<string, unknown>;
}

const conflict = "duplicate parameter (already defined in URI) with conflicting values!";

/** Path parameters join the others; a different value in both places is an error. */
export function mergePathParams(
  params: Record<string, unknown>,
  fromPath: Readonly<Record<string, string>>,
): void {
  for (const [name, value] of Object.entries(fromPath)) {
    const given = params[name];
    if (given !== undefined && given !== value && JSON.stringify(given) !== value) {
      throw parameterError({ [name]: conflict });
    }
    params[name] = value;
  }
}
