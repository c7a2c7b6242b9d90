// The Proxmox face: /api2/json, with the parameters of every method typed.
import { AppError } from "@gpve/contracts/errors.ts";
import type { PveVerb } from "@gpve/contracts/pve/schema.ts";
import {
  encodeParams,
  fillPath,
  type PveParamsOf,
  type PvePath,
  type PveValue,
  type PveValues,
} from "./pve-encoding.ts";
import { multipartBody, type UploadForm } from "./multipart-body.ts";
import { isObject } from "./response-error.ts";
import type { Sender } from "./sender.ts";
import type { MessageSocket } from "./transport.ts";

export interface CallOptions {
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
}

/** What vncproxy and termproxy answer. */
export interface ConsoleOffer {
  readonly port: number;
  readonly ticket: string;
  readonly user: string;
  /** Of vncproxy: VNC's own password. */
  readonly password?: string;
}

export type PveRow = Readonly<Record<string, unknown>>;

export interface PveAnswer {
  readonly data: unknown;
  readonly total: number | undefined;
  readonly changes: string | undefined;
}

type Args<Params> =
  Record<string, never> extends Params
    ? [params?: Params, options?: CallOptions]
    : [params: Params, options?: CallOptions];

export class PveClient {
  readonly #sender: Sender;

  constructor(deps: { sender: Sender }) {
    this.#sender = deps.sender;
  }

  async get<P extends PvePath<"GET">>(path: P, ...args: Args<PveParamsOf<"GET", P>>): Promise<unknown> {
    return (await this.#typed("GET", path, args)).data;
  }

  /** A GET that answers with rows. */
  async list<P extends PvePath<"GET">>(
    path: P,
    ...args: Args<PveParamsOf<"GET", P>>
  ): Promise<readonly PveRow[]> {
    return pveRows((await this.#typed("GET", path, args)).data, `GET ${path}`);
  }

  async post<P extends PvePath<"POST">>(path: P, ...args: Args<PveParamsOf<"POST", P>>): Promise<unknown> {
    return (await this.#typed("POST", path, args)).data;
  }

  async put<P extends PvePath<"PUT">>(path: P, ...args: Args<PveParamsOf<"PUT", P>>): Promise<unknown> {
    return (await this.#typed("PUT", path, args)).data;
  }

  async delete<P extends PvePath<"DELETE">>(
    path: P,
    ...args: Args<PveParamsOf<"DELETE", P>>
  ): Promise<unknown> {
    return (await this.#typed("DELETE", path, args)).data;
  }

  /** Any path below /api2/json, untyped: "/nodes/n1/status". Braces are taken from the parameters. */
  async call(
    verb: PveVerb,
    path: string,
    params: PveValues = {},
    options: CallOptions = {},
  ): Promise<PveAnswer> {
    const { path: filled, rest } = fillPath(path, params);
    const encoded = encodeParams(rest);
    const inQuery = verb === "GET" || verb === "DELETE";
    const query = inQuery && encoded !== "" ? `${filled.includes("?") ? "&" : "?"}${encoded}` : "";
    const response = await this.#sender.send(verb, `/api2/json${filled}${query}`, {
      ...options,
      ...(inQuery ? {} : { body: encoded, headers: { "content-type": "application/x-www-form-urlencoded" } }),
    });
    return parseAnswer(await response.text(), `${verb} ${path}`);
  }

  /** POST with a form of fields and one file, which is read while it is sent. */
  async upload(path: string, form: UploadForm, options: CallOptions = {}): Promise<PveAnswer> {
    const { contentType, body } = multipartBody(form);
    const response = await this.#sender.send("POST", `/api2/json${path}`, {
      ...options,
      body,
      headers: { "content-type": contentType },
    });
    return parseAnswer(await response.text(), `POST ${path}`);
  }

  /** Joins a console that was offered on a port: "/nodes/n1/qemu/100/vncwebsocket". */
  openConsole(path: string, offer: ConsoleOffer, options: CallOptions = {}): Promise<MessageSocket> {
    const query = encodeParams({ port: offer.port, vncticket: offer.ticket });
    return this.#sender.openSocket(`/api2/json${path}?${query}`, options.signal);
  }

  #typed(
    verb: PveVerb,
    path: string,
    args: readonly [params?: object, options?: CallOptions],
  ): Promise<PveAnswer> {
    return this.call(verb, path, (args[0] ?? {}) as Readonly<Record<string, PveValue>>, args[1]);
  }
}

export function consoleOffer(data: unknown): ConsoleOffer {
  const { port, ticket, user, password } = isObject(data) ? data : {};
  if (typeof ticket !== "string" || typeof user !== "string" || !Number.isInteger(Number(port)))
    throw new AppError("internal.error", "the server's offer of a console is not one");
  return { port: Number(port), ticket, user, ...(typeof password === "string" ? { password } : {}) };
}

export function pveRows(data: unknown, what: string): readonly PveRow[] {
  if (!Array.isArray(data)) throw new AppError("internal.error", `${what} did not answer with a list`);
  return (data as readonly unknown[]).map((row) => (isObject(row) ? row : { value: row }));
}

function parseAnswer(text: string, what: string): PveAnswer {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (err) {
    throw new AppError("internal.error", `${what} did not answer with JSON`, { cause: err });
  }
  if (!isObject(body)) throw new AppError("internal.error", `${what} did not answer with an object`);
  const { data, total, changes } = body;
  return {
    data,
    total: typeof total === "number" ? total : undefined,
    changes: typeof changes === "string" ? changes : undefined,
  };
}
