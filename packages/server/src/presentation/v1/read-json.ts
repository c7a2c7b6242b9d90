// The body of a request as JSON, or the reason why it is not.
import type { IncomingMessage } from "node:http";
import { AppError } from "@gpve/contracts/errors.ts";
import { readBody } from "../http/read-body.ts";

export const MAX_BODY_BYTES = 512 * 1024;
const MAX_DEPTH = 64;

/** Types of which JSON is made; a merge patch has its own, plain JSON is taken for it too. */
const JSON_TYPES = ["application/json", "application/merge-patch+json"];

/** undefined = the request has no body. */
export async function readJson(req: IncomingMessage): Promise<unknown> {
  const read = await readBody(req, MAX_BODY_BYTES);
  if (!read.ok) {
    if (read.why === "aborted") throw new AppError("operation.cancelled", "the client closed the connection");
    throw new AppError("request.too_large", `the body is larger than ${MAX_BODY_BYTES} bytes`);
  }
  if (read.body.length === 0) return undefined;
  const type =
    (req.headers["content-type"] ?? "application/json").split(";", 1)[0]?.trim().toLowerCase() ?? "";
  if (!JSON_TYPES.includes(type)) {
    throw new AppError("request.invalid", `content type '${type}' is not taken here; send application/json`);
  }
  const value = parse(read.body);
  if (isDeeper(value, MAX_DEPTH)) {
    throw new AppError("request.invalid", `the body is nested deeper than ${MAX_DEPTH} levels`);
  }
  return value;
}

function parse(body: Uint8Array): unknown {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(body);
  } catch (cause) {
    throw new AppError("request.invalid", "the body is not valid UTF-8", { cause });
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    // The parser's own message quotes the body, which may hold a secret.
    const place = cause instanceof Error ? /position \d+/.exec(cause.message)?.[0] : undefined;
    throw new AppError(
      "request.invalid",
      `the body is not valid JSON${place === undefined ? "" : ` (at ${place})`}`,
    );
  }
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (levels === 0) return true;
  return Object.values(value).some((part) => isDeeper(part, levels - 1));
}
