// The envelopes of /api2/<format>. A formatter turns a result into bytes; HTTP status and reason are part of it.
import { JSON_TYPE, type Answer } from "../respond.ts";

export interface PveSuccess {
  readonly ok: true;
  readonly data: unknown;
  readonly total?: number;
  readonly changes?: string;
  /** JSON text of `data`, when a cache has it ready. */
  readonly rawJson?: Uint8Array | string;
}

export interface PveFailure {
  readonly ok: false;
  readonly status: number;
  readonly message: string;
  readonly errors?: Readonly<Record<string, string>>;
}

export type PveResult = PveSuccess | PveFailure;
export type Formatter = (result: PveResult, path: string) => Answer;

const json: Formatter = (result) => {
  if (result.ok) return { status: 200, reason: "OK", contentType: JSON_TYPE, body: successBody(result, "") };
  return {
    status: result.status,
    reason: result.message,
    contentType: JSON_TYPE,
    body: Buffer.from(
      JSON.stringify({ data: null, message: withNewline(result.message), ...errorsOf(result) }),
    ),
  };
};

const extjs: Formatter = (result) => ({
  status: 200,
  reason: "OK",
  contentType: JSON_TYPE,
  body: extjsBody(result),
});

const htmljs: Formatter = (result) => ({
  status: 200,
  reason: "OK",
  contentType: "text/html;charset=UTF-8",
  body: Buffer.from(
    `<html><body><textarea>${escapeHtml(extjsBody(result).toString())}</textarea></body></html>`,
  ),
});

const html: Formatter = (result, path) => {
  const title = escapeHtml(path === "" ? "/" : path);
  const content = result.ok
    ? escapeHtml(JSON.stringify(dataOf(result), undefined, 2))
    : escapeHtml(`${result.status} ${result.message}`);
  return {
    status: result.ok ? 200 : result.status,
    reason: result.ok ? "OK" : result.message,
    contentType: "text/html;charset=UTF-8",
    body: Buffer.from(
      `<!doctype html><html><head><meta charset="utf-8"><title>${title}</title></head>` +
        `<body><h1>${title}</h1><p><a href="..">up</a></p><pre>${content}</pre></body></html>`,
    ),
  };
};

/** The connection file of a SPICE viewer. */
const spiceconfig: Formatter = (result, path) => {
  if (!result.ok) return json(result, path);
  const data = dataOf(result);
  const lines = Object.entries(typeof data === "object" && data !== null ? data : {}).map(
    ([key, value]) => `${key}=${String(value)}\n`,
  );
  return {
    status: 200,
    reason: "OK",
    contentType: "application/x-virt-viewer;charset=UTF-8",
    body: Buffer.from(`[virt-viewer]\n${lines.join("")}`),
  };
};

/** The picture in an answer that has one. */
const png: Formatter = (result, path) => {
  if (!result.ok) return json(result, path);
  const data = dataOf(result) as { readonly filename?: unknown; readonly image?: unknown } | null;
  const image = typeof data?.filename === "string" && typeof data.image === "string" ? data.image : "";
  return { status: 200, reason: "OK", contentType: "image/png", body: Buffer.from(image, "latin1") };
};

export const formatters: ReadonlyMap<string, Formatter> = new Map([
  ["json", json],
  ["extjs", extjs],
  ["htmljs", htmljs],
  ["html", html],
  ["spiceconfig", spiceconfig],
  ["png", png],
]);

function successBody(result: PveSuccess, tail: string): Buffer {
  const total = result.total === undefined || result.total === 0 ? "" : `,"total":${result.total}`;
  const changes = result.changes === undefined ? "" : `,"changes":${JSON.stringify(result.changes)}`;
  const end = `${total}${changes}${tail}}`;
  if (result.rawJson instanceof Uint8Array) return enveloped(result.rawJson, end);
  return Buffer.from(`{"data":${result.rawJson ?? JSON.stringify(result.data ?? null)}${end}`);
}

const HEAD = Buffer.from('{"data":');
const envelopes = new WeakMap<Uint8Array, { readonly end: string; readonly body: Buffer }>();

/** Bytes that a cache keeps ready are asked for again: their envelope is kept as long as they are. */
function enveloped(rawJson: Uint8Array, end: string): Buffer {
  const known = envelopes.get(rawJson);
  if (known?.end === end) return known.body;
  const body = Buffer.concat([HEAD, rawJson, Buffer.from(end)]);
  envelopes.set(rawJson, { end, body });
  return body;
}

function dataOf(result: PveSuccess): unknown {
  if (result.rawJson === undefined) return result.data ?? null;
  const text = typeof result.rawJson === "string" ? result.rawJson : Buffer.from(result.rawJson).toString();
  return JSON.parse(text);
}

function extjsBody(result: PveResult): Buffer {
  if (result.ok) return successBody(result, ',"success":1');
  return Buffer.from(
    JSON.stringify({
      data: null,
      success: 0,
      status: result.status,
      message: withNewline(result.message),
      ...errorsOf(result),
    }),
  );
}

function errorsOf(result: PveFailure): { errors?: Readonly<Record<string, string>> } {
  return result.errors !== undefined && Object.keys(result.errors).length > 0
    ? { errors: result.errors }
    : {};
}

function withNewline(message: string): string {
  return message.endsWith("\n") ? message : `${message}\n`;
}

function escapeHtml(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
