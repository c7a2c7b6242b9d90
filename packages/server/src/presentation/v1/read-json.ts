// The body of a request as JSON, or the reason why it is not.
import type { IncomingMessage } from "node:http";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { parseBoundedJson } from "@gpve/kit/bounded-json.ts";
import { NO_ROOM_FOR_BODY, readBody, type BodyTerms } from "../http/read-body.ts";

/** Types of which JSON is made; a merge patch has its own, plain JSON is taken for it too. */
const JSON_TYPES = ["application/json", "application/merge-patch+json"];

/** undefined = the request has no body. */
export async function readJson(req: IncomingMessage, terms: BodyTerms): Promise<unknown> {
  const read = await readBody(req, terms);
  if (!read.ok) {
    if (read.why === "aborted") throw new AppError("operation.cancelled", "the client closed the connection");
    if (read.why === "no-room") throw new AppError("resource.busy", NO_ROOM_FOR_BODY);
    throw new AppError("request.too_large", `the body is larger than ${terms.bytes} bytes`);
  }
  if (read.body.length === 0) return undefined;
  const type =
    (req.headers["content-type"] ?? "application/json").split(";", 1)[0]?.trim().toLowerCase() ?? "";
  if (!JSON_TYPES.includes(type)) {
    throw new AppError("request.invalid", `content type '${type}' is not taken here; send application/json`);
  }
  return parse(read.body);
}

function parse(body: Uint8Array): unknown {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(body);
  } catch (cause) {
    throw new AppError("request.invalid", "the body is not valid UTF-8", { cause });
  }
  try {
    return parseBoundedJson(text);
  } catch (cause) {
    if (isAppError(cause)) throw cause;
    // The parser's own message quotes the body, which may hold a secret.
    const place = cause instanceof Error ? /position \d+/.exec(cause.message)?.[0] : undefined;
    throw new AppError(
      "request.invalid",
      `the body is not valid JSON${place === undefined ? "" : ` (at ${place})`}`,
    );
  }
}
