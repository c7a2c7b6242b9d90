// Our own face: /api/v1, objects with metadata, spec and status.
import { given } from "@gpve/contracts/given.ts";
import { AppError, type ErrorCode, isAppError } from "@gpve/contracts/errors.ts";
import type { ObjectEventType } from "@gpve/contracts/v1/object.ts";
import type {
  ApplyResult,
  ListOptions,
  PlanResult,
  V1Kind,
  V1Object,
  V1ObjectInput,
  V1Page,
  V1WatchEvent,
  WatchOptions,
  WriteOptions,
} from "./object.ts";
import { encodeParams, type PveValues } from "./pve-encoding.ts";
import { isErrorCode, isObject } from "./response-error.ts";
import type { Sender } from "./sender.ts";
import { readEvents } from "./server-sent-events.ts";
import type { ClientClock, HttpVerb, MessageSocket } from "./transport.ts";

export interface TunnelOptions {
  readonly address?: string;
  readonly signal?: AbortSignal;
}

export class V1Client {
  readonly #sender: Sender;
  readonly #clock: ClientClock;
  #kinds: Promise<readonly V1Kind[]> | undefined;

  constructor(deps: { sender: Sender; clock: ClientClock }) {
    this.#sender = deps.sender;
    this.#clock = deps.clock;
  }

  /** The kinds this server knows, asked once. */
  kinds(): Promise<readonly V1Kind[]> {
    this.#kinds ??= this.raw("GET", "").then(parseKinds);
    return this.#kinds;
  }

  /** Finds a kind by its name, plural or alias, in any case. */
  async kind(name: string): Promise<V1Kind> {
    const wanted = name.toLowerCase();
    const kinds = await this.kinds();
    const found = kinds.find((one) =>
      [one.kind, one.plural, ...one.aliases].some((alias) => alias.toLowerCase() === wanted),
    );
    if (found !== undefined) return found;
    const known = kinds.map((one) => one.plural).join(", ");
    throw new AppError("object.not_found", `there is no kind "${name}"; known: ${known}`);
  }

  async get(plural: string, name: string, options: { signal?: AbortSignal } = {}): Promise<V1Object> {
    return v1Object(await this.raw("GET", objectPath(plural, name), options));
  }

  async list(plural: string, options: ListOptions = {}): Promise<V1Page> {
    const { signal, continueToken, ...query } = options;
    const body = await this.raw(
      "GET",
      withQuery(plural, { ...query, continue: continueToken }),
      pick(signal),
    );
    if (!isObject(body) || !Array.isArray(body["items"])) {
      throw new AppError("internal.error", `the list of ${plural} carries no items`);
    }
    const meta = isObject(body["metadata"]) ? body["metadata"] : {};
    return {
      items: (body["items"] as readonly unknown[]).map(v1Object),
      resourceVersion: textOf(meta["resourceVersion"]),
      continueToken: textOf(meta["continue"]),
    };
  }

  /** Every object, page after page. */
  async *listAll(plural: string, options: ListOptions = {}): AsyncGenerator<V1Object> {
    let page = await this.list(plural, options);
    for (;;) {
      yield* page.items;
      if (page.continueToken === undefined) return;
      page = await this.list(plural, { ...options, continueToken: page.continueToken });
    }
  }

  async create(plural: string, object: V1ObjectInput, options: WriteOptions = {}): Promise<V1Object> {
    return v1Object(await this.#write("POST", plural, object, options));
  }

  /** With `metadata.resourceVersion` set, refused (`object.conflict`) when someone else wrote meanwhile. */
  async replace(
    plural: string,
    name: string,
    object: V1ObjectInput,
    options: WriteOptions = {},
  ): Promise<V1Object> {
    return v1Object(await this.#write("PUT", objectPath(plural, name), object, options));
  }

  /** RFC 7396 merge patch: null removes a key. */
  async patch(plural: string, name: string, patch: object, options: WriteOptions = {}): Promise<V1Object> {
    const type = "application/merge-patch+json";
    return v1Object(await this.#write("PATCH", objectPath(plural, name), patch, options, type));
  }

  async delete(plural: string, name: string, options: WriteOptions = {}): Promise<void> {
    await this.#write("DELETE", objectPath(plural, name), undefined, options);
  }

  /** What applying would change, computed by the server; changes nothing. */
  async plan(objects: readonly V1ObjectInput[], options: WriteOptions = {}): Promise<PlanResult> {
    const result = await this.#write("POST", "plan", { objects }, options);
    if (!isObject(result) || !Array.isArray(result["items"])) {
      throw new AppError("internal.error", "the plan carries no items");
    }
    return result as unknown as PlanResult;
  }

  /** Makes the objects so, as one operation; `task` is its UPID, absent when nothing had to change. */
  async apply(objects: readonly V1ObjectInput[], options: WriteOptions = {}): Promise<ApplyResult> {
    const result = await this.#write("POST", "apply", { objects }, options);
    if (!isObject(result) || !Array.isArray(result["items"])) {
      throw new AppError("internal.error", "the answer to apply carries no items");
    }
    return result as unknown as ApplyResult;
  }

  /** A POST below /api/v1 that is not the creation of an object: "join-tokens", "nodes/n1/probe". */
  post(path: string, body: object | undefined, options: WriteOptions = {}): Promise<unknown> {
    return this.#write("POST", path, body, options);
  }

  /** Changes as they happen, going on by itself after a lost connection, until the signal aborts. */
  async *watch(plural: string, options: WatchOptions = {}): AsyncGenerator<V1WatchEvent> {
    const { signal, resourceVersion, ...selectors } = options;
    let from = resourceVersion;
    for (let failures = 0; ;) {
      try {
        for await (const event of this.#watchOnce(plural, selectors, from, signal)) {
          failures = 0;
          from = event.resourceVersion;
          if (event.type !== "BOOKMARK") yield { ...event, type: event.type };
        }
      } catch (err) {
        if (signal?.aborted === true) return;
        // Only a broken connection is worth another try; a refusal would be the same again.
        if (!isAppError(err) || err.kind !== "unavailable" || failures >= 10) throw err;
      }
      if (signal?.aborted === true) return;
      await this.#clock.sleep(Math.min(100 * 2 ** failures, 5000), signal).catch(() => undefined);
      failures += 1;
    }
  }

  /** Any path below /api/v1, parsed. */
  async raw(
    verb: HttpVerb,
    path: string,
    options: { body?: unknown; signal?: AbortSignal; headers?: Readonly<Record<string, string>> } = {},
  ): Promise<unknown> {
    const { body, headers, signal } = options;
    const response = await this.#sender.send(verb, path === "" ? "/api/v1" : `/api/v1/${path}`, {
      ...pick(signal),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
    });
    const text = await response.text();
    if (text === "") return undefined;
    try {
      return JSON.parse(text) as unknown;
    } catch (err) {
      throw new AppError("internal.error", `/api/v1/${path} did not answer with JSON`, { cause: err });
    }
  }

  /** A read that answers with something else than JSON. */
  async bytes(path: string, options: { signal?: AbortSignal } = {}): Promise<Uint8Array> {
    const response = await this.#sender.send("GET", `/api/v1/${path}`, { ...pick(options.signal) });
    const pieces: Uint8Array[] = [];
    for await (const piece of response.body) pieces.push(piece);
    const all = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
    let at = 0;
    for (const piece of pieces) {
      all.set(piece, at);
      at += piece.length;
    }
    return all;
  }

  /** A line to a TCP port of a VM, through the platform; without an address, to one that its node sees at its cards. */
  openTunnel(vmid: number, port: number, options: TunnelOptions = {}): Promise<MessageSocket> {
    const path = withQuery(`virtualmachines/${vmid}/tunnel`, {
      port,
      ...given({ address: options.address }),
    });
    return this.#sender.openSocket(`/api/v1/${path}`, options.signal);
  }

  async *#watchOnce(
    plural: string,
    selectors: PveValues,
    from: string | undefined,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<V1WatchEvent | { type: "BOOKMARK"; resourceVersion: string }> {
    const path = withQuery(plural, { watch: "1", ...selectors, resourceVersion: from });
    const response = await this.#sender.send("GET", `/api/v1/${path}`, {
      headers: {
        accept: "text/event-stream",
        ...given({ "last-event-id": from }),
      },
      timeoutMs: 0,
      ...pick(signal),
    });
    for await (const event of readEvents(response.body)) yield watchEvent(event.event, event.data, event.id);
  }

  #write(
    verb: HttpVerb,
    path: string,
    body: unknown,
    options: WriteOptions,
    type = "application/json",
  ): Promise<unknown> {
    return this.raw(verb, path, {
      ...given({ body }),
      ...pick(options.signal),
      headers: {
        "idempotency-key": options.idempotencyKey ?? globalThis.crypto.randomUUID(),
        ...(body === undefined ? {} : { "content-type": type }),
      },
    });
  }
}

function watchEvent(
  name: string,
  text: string,
  id: string,
): V1WatchEvent | { type: "BOOKMARK"; resourceVersion: string } {
  const data: unknown = JSON.parse(text);
  // The event's name says what it is; some servers put it into the data instead.
  const inside = isObject(data) && typeof data["type"] === "string" ? data["type"] : name;
  const type = name === "message" ? inside : name;
  if (type === "ERROR" || type === "error") {
    const problem = isObject(data) && isObject(data["object"]) ? data["object"] : data;
    const detail = isObject(problem) ? textOf(problem["detail"]) : undefined;
    const code = isObject(problem) ? problem["code"] : undefined;
    const known: ErrorCode = isErrorCode(code) ? code : "store.compacted";
    throw new AppError(known, detail ?? "the watch was ended by the server");
  }
  const object = isObject(data) && isObject(data["object"]) ? data["object"] : data;
  const version =
    isObject(object) && isObject(object["metadata"])
      ? textOf(object["metadata"]["resourceVersion"])
      : undefined;
  const resourceVersion = id === "" ? (version ?? "") : id;
  const upper = type.toUpperCase();
  if (!isEventType(upper)) return { type: "BOOKMARK", resourceVersion };
  return { type: upper, object: v1Object(object), resourceVersion };
}

function isEventType(type: string): type is ObjectEventType {
  return type === "ADDED" || type === "MODIFIED" || type === "DELETED";
}

function v1Object(value: unknown): V1Object {
  const meta = isObject(value) ? value["metadata"] : undefined;
  if (!isObject(meta) || typeof meta["name"] !== "string") {
    throw new AppError("internal.error", "the server's answer is not an object with a name");
  }
  return value as unknown as V1Object;
}

function parseKinds(body: unknown): readonly V1Kind[] {
  const list = isObject(body) ? body["kinds"] : undefined;
  if (!Array.isArray(list)) throw new AppError("internal.error", "/api/v1 does not list its kinds");
  return list as readonly V1Kind[];
}

function objectPath(plural: string, name: string): string {
  return `${plural}/${encodeURIComponent(name)}`;
}

function withQuery(path: string, query: PveValues): string {
  const text = encodeParams(query);
  return text === "" ? path : `${path}?${text}`;
}

function textOf(value: unknown): string | undefined {
  if (typeof value === "number") return String(value);
  return typeof value === "string" && value !== "" ? value : undefined;
}

function pick(signal: AbortSignal | undefined): { signal?: AbortSignal } {
  return signal === undefined ? {} : { signal };
}
