// Requests that a hostile or broken client might send, from a seed. Well-formed ones name real methods with parameters
// of every wrong kind; malformed ones break HTTP, encodings, bodies and paths.
import { v1Routes } from "@gpve/contracts/v1/routes.ts";
import { pveMethods } from "@gpve/domain/schema/method-table.ts";
import type { PveMethod } from "@gpve/contracts/pve/schema.ts";
import type { Random } from "./random.ts";

export interface FuzzRequest {
  readonly kind: string;
  readonly bytes: Buffer;
}

export interface FuzzContext {
  /** Header lines that authenticate; the second has no rights. */
  readonly admin: string;
  readonly nobody: string;
  readonly node: string;
}

/**
 * Writes that reach only the platform's own records. What would touch the machine (power, name resolution, time zone,
 * guests) goes out without rights, so that it must be refused.
 */
const SAFE_WRITES = /^\/(?:access|pools|cluster\/(?:options|log|tasks))/;
/** Our own way in must survive the run; a probe of the machine starts processes. */
const NEVER =
  /^\/(?:access\/(?:password|ticket|vncticket))|\/(?:probe|pull|build)$|\/report$|\/apt\/(?:update|versions)$|\/disks\/|\/services(?:$|\/)|\/(?:syslog|journal)$|\/audit\/verify$|\/(?:cancel|join-tokens)$/;

const TEXTS = [
  "",
  "0",
  "1",
  "-1",
  "999999999999999999999",
  "1e309",
  "NaN",
  "true",
  "null",
  "a",
  "root",
  "joe@pve",
  "joe@pve!ci",
  "@",
  "pve",
  "../../etc/passwd",
  "/vms/100",
  "/",
  "local:iso/x.iso",
  "virtio,bridge=vmbr0",
  "a=b,c=d,e",
  ",,,",
  "x".repeat(300),
  "ünïcödé ☃ 💥",
  "\u0000",
  "a\nb",
  "a\r\nX-Evil: 1",
  "%00%ff%",
  "' OR 1=1 --",
  "${jndi:ldap://x}",
  "$(reboot)",
  "__proto__",
  "constructor",
  "toString",
  "UPID:n:00000001:00000001:00000001:x:y:root@pam:",
];

const methods = pveMethods.filter((method) => !NEVER.test(method.path));
const v1 = v1Routes().filter((route) => !NEVER.test(route.path));
const kinds: readonly [weight: number, make: (random: Random, ctx: FuzzContext) => FuzzRequest][] = [
  [40, validRoute],
  [15, jsonBody],
  [12, v1Request],
  [8, oddPath],
  [6, oddForm],
  [5, oddBody],
  [4, oddHeaders],
  [4, oddMethod],
  [3, brokenLine],
  [2, oversized],
  [1, noise],
];
const total = kinds.reduce((sum, [weight]) => sum + weight, 0);

export function fuzzRequest(random: Random, ctx: FuzzContext): FuzzRequest {
  let at = random.below(total);
  for (const [weight, make] of kinds) {
    at -= weight;
    if (at < 0) return make(random, ctx);
  }
  return validRoute(random, ctx);
}

/** Mostly extjs: it answers everything with 200 and keeps the connection. */
function face(random: Random): string {
  return random.chance(0.8)
    ? "/api2/extjs"
    : random.pick(["/api2/json", "/api2/htmljs", "/api2/html", "/api2//json"]);
}

function anyMethod(random: Random): PveMethod {
  const method = random.pick(methods);
  return method.method !== "GET" && random.chance(0.5)
    ? random.pick(methods.filter((other) => SAFE_WRITES.test(other.path)))
    : method;
}

function authFor(method: PveMethod, ctx: FuzzContext): string {
  return method.method === "GET" || SAFE_WRITES.test(method.path) ? ctx.admin : ctx.nobody;
}

function fill(path: string, random: Random, ctx: FuzzContext): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    if (name === "node") return random.chance(0.9) ? ctx.node : encodeURIComponent(random.pick(TEXTS));
    if (name === "vmid") return String(100 + random.below(10));
    return encodeURIComponent(random.pick(TEXTS));
  });
}

function params(method: PveMethod, random: Random): Record<string, string> {
  const chosen: Record<string, string> = {};
  for (const name of Object.keys(method.parameters)) {
    if (name !== "node" && name !== "vmid" && random.chance(0.3)) chosen[name] = random.pick(TEXTS);
  }
  if (random.chance(0.2)) chosen[random.pick(TEXTS)] = random.pick(TEXTS);
  return chosen;
}

function validRoute(random: Random, ctx: FuzzContext): FuzzRequest {
  const method = anyMethod(random);
  const path = `${face(random)}${fill(method.path, random, ctx)}`;
  const form = new URLSearchParams(params(method, random)).toString();
  const inQuery = method.method === "GET" || method.method === "DELETE";
  return made("route", {
    line: `${method.method} ${path}${inQuery && form !== "" ? `?${form}` : ""} HTTP/1.1`,
    headers: [authFor(method, ctx), "Content-Type: application/x-www-form-urlencoded"],
    body: inQuery ? "" : form,
  });
}

function jsonBody(random: Random, ctx: FuzzContext): FuzzRequest {
  const method = random.pick(methods.filter((one) => one.method === "POST" || one.method === "PUT"));
  return made("json", {
    line: `${method.method} ${face(random)}${fill(method.path, random, ctx)} HTTP/1.1`,
    headers: [authFor(method, ctx), "Content-Type: application/json"],
    body: jsonText(random, Object.keys(method.parameters)),
  });
}

function v1Request(random: Random, ctx: FuzzContext): FuzzRequest {
  const route = random.pick(v1);
  const path = `/api/v1${fill(route.path, random, ctx)}`;
  const query = new URLSearchParams();
  for (const { name } of route.query ?? []) {
    // A watch never ends; one in a while is enough, and the time-out ends it.
    if (random.chance(0.3) && (name !== "watch" || random.chance(0.02))) query.set(name, random.pick(TEXTS));
  }
  const text = query.toString();
  return made("v1", {
    line: `${route.method} ${path}${text === "" ? "" : `?${text}`} HTTP/1.1`,
    headers: [
      ctx.admin,
      "Content-Type: application/json",
      ...(random.chance(0.3) ? [`Idempotency-Key: ${random.pick(["k1", "k2", "", "x".repeat(400)])}`] : []),
    ],
    body: route.method === "GET" ? "" : v1Body(random, route.kind?.kind),
  });
}

function v1Body(random: Random, kind: string | undefined): string {
  if (random.chance(0.4)) return jsonText(random, ["apiVersion", "kind", "metadata", "spec", "objects"]);
  const names = TEXTS.filter((text) => !text.startsWith("root"));
  return JSON.stringify({
    apiVersion: random.pick(["gpve.io/v1", "gpve.io/v2", "", 1]),
    kind: random.chance(0.8) ? kind : random.pick(TEXTS),
    metadata: { name: random.pick(names), labels: { [random.pick(TEXTS)]: random.pick(TEXTS) } },
    spec: value(random, 3),
  });
}

function jsonText(random: Random, keys: readonly string[]): string {
  switch (random.below(8)) {
    case 0:
      return random.pick([
        "{",
        "[1,",
        '{"a":}',
        '"text',
        "nul",
        "",
        " ",
        "\u0000",
        "{'a':1}",
        '{"a":1}}',
        "[]",
        "7",
        "null",
      ]);
    case 1:
      return `{"a":`.repeat(random.below(5000) + 1) + "1" + "}".repeat(random.below(5000));
    case 2:
      return "[".repeat(20_000) + "]".repeat(20_000);
    case 3:
      return `{"${keys[0] ?? "a"}":1,"${keys[0] ?? "a"}":2,"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}`;
    case 4:
      return `{"a":"\\ud800","\\u0000":"\\udfff"}`;
    default:
      return JSON.stringify(
        Object.fromEntries(keys.filter(() => random.chance(0.4)).map((key) => [key, value(random, 3)])),
      );
  }
}

function value(random: Random, depth: number): unknown {
  switch (random.below(depth > 0 ? 9 : 6)) {
    case 0:
      return null;
    case 1:
      return random.chance(0.5);
    case 2:
      return random.pick([0, -1, 1.5, 1e308, -0, 2 ** 53]);
    case 3:
    case 4:
    case 5:
      return random.pick(TEXTS);
    case 6:
      return Array.from({ length: random.below(4) }, () => value(random, depth - 1));
    default:
      return Object.fromEntries(
        Array.from({ length: random.below(4) }, () => [random.pick(TEXTS), value(random, depth - 1)]),
      );
  }
}

function oddPath(random: Random, ctx: FuzzContext): FuzzRequest {
  const paths = [
    "/api2/json/../../etc/passwd",
    "/api2/json/%2e%2e/%2e%2e/etc/passwd",
    "/api2/extjs/access/users/%00",
    "/api2/extjs/access/users/%ff%fe",
    "/api2/extjs/access/users/%c0%af",
    "/api2/extjs/nodes/%2F%2F%2F/status",
    "/api2/extjs/access%2Fusers",
    "/api2/extjs/%",
    "/api2/extjs/%zz%1",
    "/api2/extjs////version////",
    "/api2/extjs/version?" + "a".repeat(2000),
    "/api2/extjs/version?a=1&a=2&a=3;b;c=&=d&__proto__=1",
    "/api2/extjs/version#fragment",
    "/api2/extjs/" + "x/".repeat(500),
    "/api2/nope/version",
    "/api2/",
    "/api2",
    "/api2/json",
    "//",
    "/api/v1/%00",
    "/api/v1/users/%ff",
    "/api/v1/users/..%2f..%2f",
    "/api/v2/users",
    "https://elsewhere/api2/json/version",
    "*",
    "?",
    "/\u00e9\u00ff",
  ];
  return made("path", { line: `GET ${random.pick(paths)} HTTP/1.1`, headers: [ctx.admin], body: "" });
}

function oddForm(random: Random, ctx: FuzzContext): FuzzRequest {
  const bodies = [
    "&&&&",
    "=",
    "a=%",
    "a=%ff%fe&b=\u00ff",
    "a".repeat(5000),
    "a=1;b=2;;",
    "__proto__=1&constructor=2",
  ];
  return made("form", {
    line: `POST ${face(random)}/${random.pick(["access/users", "pools", "access/groups", "version"])} HTTP/1.1`,
    headers: [ctx.admin, "Content-Type: application/x-www-form-urlencoded"],
    body: random.chance(0.2) ? random.bytes(200) : random.pick(bodies),
  });
}

function oddBody(random: Random, ctx: FuzzContext): FuzzRequest {
  const types = [
    "text/xml",
    "multipart/form-data; boundary=x",
    "application/json; charset=latin1",
    "",
    "a/b/c",
    "json",
  ];
  const line = random.pick([
    `GET ${face(random)}/version HTTP/1.1`,
    `DELETE ${face(random)}/pools/x HTTP/1.1`,
    `POST ${face(random)}/pools HTTP/1.1`,
    "POST /api/v1/tenants HTTP/1.1",
    "PATCH /api/v1/tenants/x HTTP/1.1",
  ]);
  return made("body", {
    line,
    headers: [ctx.admin, `Content-Type: ${random.pick(types)}`],
    body: random.bytes(random.below(300)),
  });
}

function oddHeaders(random: Random, ctx: FuzzContext): FuzzRequest {
  const extra = [
    "Transfer-Encoding: chunked\r\nX: y",
    "Transfer-Encoding: gzip",
    "Content-Length: -1",
    "Content-Length: 5\r\nContent-Length: 6",
    "Content-Length: 999999999",
    "Content-Length: 1e3",
    "Content-Length: 5\r\nTransfer-Encoding: chunked",
    "Expect: 100-continue",
    "Expect: the unexpected",
    "Connection: upgrade\r\nUpgrade: websocket",
    "Upgrade: h2c",
    "Accept-Encoding: gzip;q=0, deflate;q=x, *",
    "Cookie: " + "a=b; ".repeat(200),
    "Host: a\r\nHost: b",
    " leading: space",
    "no colon here",
    "Bad\u0000Name: x",
    "X-Long: " + "y".repeat(7000),
    ...Array.from({ length: 3 }, () => Array.from({ length: 90 }, (_, at) => `X-${at}: 1`).join("\r\n")),
  ];
  return made("header", {
    line: `GET ${face(random)}/version HTTP/1.1`,
    headers: [ctx.admin, random.pick(extra)],
    body: "",
  });
}

function oddMethod(random: Random, ctx: FuzzContext): FuzzRequest {
  const verbs = [
    "HEAD",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "CONNECT",
    "PROPFIND",
    "BREW",
    "get",
    "G\u00cbT",
    "PURGE",
    "QUERY",
  ];
  return made("method", {
    line: `${random.pick(verbs)} ${face(random)}/version HTTP/1.1`,
    headers: [ctx.admin],
    body: "",
  });
}

function brokenLine(random: Random, ctx: FuzzContext): FuzzRequest {
  const lines = [
    "GET /api2/json/version",
    "GET /api2/json/version HTTP/0.9",
    "GET /api2/json/version HTTP/9.9",
    "GET  /api2/json/version  HTTP/1.1",
    "GET /api2/json/ver sion HTTP/1.1",
    "GET\t/api2/json/version\tHTTP/1.1",
    "/api2/json/version",
    "",
    "\r\n\r\n",
    "PRI * HTTP/2.0",
    "GET /\u0000 HTTP/1.1",
    "A".repeat(9000),
  ];
  return made("line", { line: random.pick(lines), headers: [ctx.admin], body: "" });
}

function oversized(random: Random, ctx: FuzzContext): FuzzRequest {
  if (random.chance(0.5)) {
    return made("large header", {
      line: "GET /api2/json/version HTTP/1.1",
      headers: [ctx.admin, `X-Large: ${"z".repeat(8 * 1024 + random.below(20_000))}`],
      body: "",
    });
  }
  const path = random.pick(["/api2/json/pools", "/api/v1/tenants"]);
  return made("large body", {
    line: `POST ${path} HTTP/1.1`,
    headers: [ctx.admin, "Content-Type: application/json"],
    body: Buffer.alloc(513 * 1024, 0x20),
  });
}

function noise(random: Random): FuzzRequest {
  return {
    kind: "noise",
    bytes: Buffer.concat([random.bytes(1 + random.below(400)), Buffer.from("\r\n\r\n")]),
  };
}

function made(
  kind: string,
  parts: { readonly line: string; readonly headers: readonly string[]; readonly body: string | Buffer },
): FuzzRequest {
  const body = typeof parts.body === "string" ? Buffer.from(parts.body, "utf8") : parts.body;
  const length = body.length > 0 ? `Content-Length: ${body.length}\r\n` : "";
  const head = `${parts.line}\r\nHost: localhost\r\n${parts.headers.join("\r\n")}\r\n${length}\r\n`;
  return { kind, bytes: Buffer.concat([Buffer.from(head, "latin1"), body]) };
}
