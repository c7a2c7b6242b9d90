// Starts the product as a user does, in a scratch data directory, and takes it down again.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { startChild, type Child } from "@gpve/kit/testing/child.ts";
import { endGuestsOf, removeWallOf } from "./left-guests.ts";

export const root = resolve(import.meta.dirname, "../..");
export const nodeBinary = join(root, "node_modules/.bin/node");
export const mainFile = join(root, "packages/bin/src/main.js");
/** As the launcher has them: what is tested and measured is what users get. */
export const nodeOptions: readonly string[] =
  /^node_options=\((.*)\)$/m.exec(readFileSync(join(root, "gpve"), "utf8"))?.[1]?.split(" ") ?? [];

/** Its environment beside them. */
const launcherEnv = {
  MALLOC_TRIM_THRESHOLD_:
    /^malloc_trim_threshold=(\d+)$/m.exec(readFileSync(join(root, "gpve"), "utf8"))?.[1] ?? "",
};

export interface Credentials {
  readonly url: string;
  readonly fingerprint: string;
  readonly caFile: string;
  readonly username: string;
  readonly password: string;
  readonly token: string;
}

export interface Gpve {
  readonly data: string;
  readonly credentials: Credentials;
  readonly process: Child;
  readonly kill: () => Promise<void>;
  /** Starts again on the same data, after a kill or stop. */
  readonly restart: () => Promise<Gpve>;
  readonly stop: () => Promise<void>;
}

export interface StartOptions {
  readonly data?: string;
  readonly args?: readonly string[];
  /** Lets it make its bridge on this machine; the test then takes it away again. */
  readonly network?: boolean;
  /** Beside the minimal environment. */
  readonly env?: Readonly<Record<string, string>>;
}

export async function startGpve(options: StartOptions = {}): Promise<Gpve> {
  const data = options.data ?? mkdtempSync(join(tmpdir(), "gpve-it-"));
  const args = [
    mainFile,
    "up",
    "--data",
    data,
    "--listen",
    "127.0.0.1:0",
    ...(options.network === true ? [] : ["--no-network"]),
    ...(options.args ?? []),
  ];
  const child = startChild(nodeBinary, [...nodeOptions, ...args], {
    env: { ...MINIMAL_ENV, ...launcherEnv, ...options.env },
  });
  await untilPrinted(child, "Try next:");
  return {
    data,
    credentials: readCredentials(data),
    process: child,
    kill: async () => {
      child.signal("SIGKILL");
      await child.exited;
    },
    restart: () => startGpve({ ...options, data }),
    stop: async () => {
      child.signal("SIGTERM");
      const timer = setTimeout(() => child.signal("SIGKILL"), 15_000);
      await child.exited;
      clearTimeout(timer);
      endGuestsOf(data);
      await removeWallOf(data);
      rmSync(data, { recursive: true, force: true });
    },
  };
}

export function readCredentials(data: string): Credentials {
  return JSON.parse(readFileSync(join(data, "credentials.json"), "utf8")) as Credentials;
}

/** Waits for a text in a child's output; a child that ends first is an error with everything it said. */
export async function untilPrinted(child: Child, text: string, timeoutMs = 180_000): Promise<void> {
  let ended = false;
  void child.exited.then(() => (ended = true));
  const end = performance.now() + timeoutMs;
  while (!child.output().includes(text)) {
    if (ended || performance.now() > end) throw new Error(`"${text}" was never printed:\n${child.output()}`);
    await new Promise((done) => setTimeout(done, 25));
  }
}

export interface Answer {
  readonly status: number;
  readonly reason: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** `data` of a PVE envelope. */
  readonly data: never;
  readonly json: {
    readonly data: unknown;
    readonly message?: string;
    readonly errors?: Record<string, string>;
  };
}

/** "" = there is none. */
export async function firstNode(api: Api): Promise<string> {
  return ((await api("GET", "/nodes")).data as readonly { readonly node: string }[])[0]?.node ?? "";
}

export interface Api {
  (
    method: string,
    path: string,
    params?: Readonly<Record<string, string | number>>,
    headers?: Readonly<Record<string, string>>,
    /** Instead of the parameters as a form. */
    rawBody?: string,
  ): Promise<Answer>;
}

/** A plain HTTPS client for /api2/json: form bodies, token by default, nothing hidden. */
export function apiOf(
  credentials: Pick<Credentials, "url" | "caFile" | "token">,
  auth?: Readonly<Record<string, string>>,
  prefix = "/api2/json",
): Api {
  const ca = readFileSync(credentials.caFile);
  const base = new URL(credentials.url);
  return (method, path, params = {}, headers = {}, rawBody) => {
    const encoded = new URLSearchParams(
      Object.entries(params).map(([key, value]): [string, string] => [key, String(value)]),
    ).toString();
    const inQuery = method === "GET" || method === "DELETE";
    const body = rawBody ?? (inQuery ? undefined : encoded);
    const target = `${prefix}${path}${inQuery && encoded !== "" ? `${path.includes("?") ? "&" : "?"}${encoded}` : ""}`;
    return new Promise((done, fail) => {
      const req = request(
        {
          host: base.hostname,
          port: base.port,
          ca,
          method,
          path: target,
          agent: false,
          headers: {
            ...(auth ?? { Authorization: `PVEAPIToken=${credentials.token}` }),
            ...(body === undefined
              ? {}
              : {
                  "Content-Type": "application/x-www-form-urlencoded",
                  "Content-Length": String(Buffer.byteLength(body)),
                }),
            ...headers,
          },
        },
        (res) => {
          const chunks: Buffer[] = [];
          res.on("data", (chunk: Buffer) => chunks.push(chunk));
          res.on("end", () => {
            const text = Buffer.concat(chunks).toString("utf8");
            const json = text.startsWith("{") ? (JSON.parse(text) as Answer["json"]) : { data: undefined };
            const reason = Buffer.from(res.statusMessage ?? "", "latin1").toString("utf8");
            done({
              status: res.statusCode ?? 0,
              reason,
              headers: res.headers,
              text,
              json,
              data: json.data as never,
            });
          });
        },
      );
      req.on("error", fail);
      req.end(body);
    });
  };
}

/** Logs in with the password and returns headers for reads and writes. */
export async function loginHeaders(credentials: Credentials): Promise<Record<string, string>> {
  const api = apiOf(credentials, {});
  const answer = await api("POST", "/access/ticket", {
    username: credentials.username,
    password: credentials.password,
  });
  const { ticket, CSRFPreventionToken } = answer.data as { ticket: string; CSRFPreventionToken: string };
  return { Cookie: `PVEAuthCookie=${encodeURIComponent(ticket)}`, CSRFPreventionToken };
}
