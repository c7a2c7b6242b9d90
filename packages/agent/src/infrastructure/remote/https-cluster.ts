// Another cluster over HTTPS. Who answers is known by the fingerprint of its certificate where one was given, else by the
// authorities of this machine; the token is not sent before that is settled.
import { request } from "node:http";
import { connect, type TLSSocket } from "node:tls";
import { WebSocket } from "ws";
import { AppError } from "@gpve/contracts/errors.ts";
import { plainFingerprint } from "@gpve/domain/node/record.ts";
import type { RemoteCluster, RemotePeer, RemoteTunnel } from "@gpve/domain/vm/migrate/remote-cluster.ts";
import type { RemoteEndpoint } from "@gpve/domain/vm/migrate/remote-move.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { roomIn } from "@gpve/kit/stream-room.ts";
import { TunnelPeer } from "./tunnel-peer.ts";

const CONNECT_MS = 15_000;
const KEEP_ALIVE_MS = 10_000;
const MAX_FRAME_BYTES = 4 * 1024 * 1024;
const BOUNDARY = "----gpve-upload";
const MAX_ANSWER_BYTES = 8 * 1024 * 1024;
/** Of what it says of a refusal. */
const MAX_SAID = 500;

interface Body {
  readonly type: string;
  readonly length: number;
  write(to: NodeJS.WritableStream & { destroyed?: boolean }): Promise<void>;
}

export class HttpsCluster implements RemoteCluster {
  readonly #endpoint: RemoteEndpoint;
  readonly #signal: AbortSignal;
  readonly #folder: string;

  /** `folder`: for sockets of guests that are sent there; near the root. */
  constructor(endpoint: RemoteEndpoint, signal: AbortSignal, folder: string) {
    this.#endpoint = endpoint;
    this.#signal = signal;
    this.#folder = folder;
  }

  peer(vmid: number, tunnel: RemoteTunnel, signal: AbortSignal): Promise<RemotePeer> {
    const dial = (channel: string): Promise<WebSocket> => this.#websocket(vmid, tunnel, channel, signal);
    return TunnelPeer.connect(dial, this.#folder);
  }

  async #websocket(
    vmid: number,
    { socket, ticket }: RemoteTunnel,
    channel: string,
    signal: AbortSignal,
  ): Promise<WebSocket> {
    const { host, port, apitoken } = this.#endpoint;
    const line = await this.#connect();
    const query = new URLSearchParams({ socket: `${socket}.${channel}`, ticket }).toString();
    const path = `/api2/json/nodes/localhost/qemu/${vmid}/mtunnelwebsocket`;
    line.setNoDelay(true);
    // The other end may lose its power without a word.
    line.setKeepAlive(true, KEEP_ALIVE_MS);
    const ws = new WebSocket(
      `ws://${host.includes(":") ? `[${host}]` : host}:${port}${path}?${query}`,
      "binary",
      {
        createConnection: () => line,
        headers: { Authorization: `PVEAPIToken=${apitoken}` },
        perMessageDeflate: false,
        maxPayload: MAX_FRAME_BYTES,
      },
    );
    return new Promise((resolve, reject) => {
      const fail = (why: string): void => {
        ws.terminate();
        const what = `GET ${path} at ${host}:${port}`;
        reject(new AppError("node.unavailable", `${what} failed: ${why}`));
      };
      const onAbort = (): void => fail("the move was called off");
      signal.addEventListener("abort", onAbort, { once: true });
      ws.once("unexpected-response", (_request, answer) =>
        fail(`${answer.statusCode} ${answer.statusMessage ?? ""}`),
      );
      ws.once("error", (err) => fail(err.message));
      ws.once("open", () => {
        signal.removeEventListener("abort", onAbort);
        resolve(ws);
      });
      if (signal.aborted) onAbort();
    });
  }

  call(method: string, path: string, params: Readonly<Record<string, string>> = {}): Promise<unknown> {
    const text = new URLSearchParams(params).toString();
    const inQuery = method === "GET" || method === "DELETE";
    const full = inQuery && text !== "" ? `${path}?${text}` : path;
    const bytes = Buffer.from(inQuery ? "" : text);
    return this.#send(method, full, {
      type: "application/x-www-form-urlencoded",
      length: bytes.length,
      write: async (to) => void to.write(bytes),
    });
  }

  async upload(
    storage: string,
    file: { readonly name: string; readonly size: number; readonly body: AsyncIterable<Uint8Array> },
    work: { readonly progress: (fraction: number) => void; readonly bytesPerSecond?: number | undefined },
  ): Promise<string> {
    const field = (name: string, more: string): string =>
      `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"${more}\r\n\r\n`;
    const before = Buffer.from(
      `${field("content", "")}import\r\n${field("filename", `; filename="${file.name}"`)}`,
    );
    const after = Buffer.from(`\r\n--${BOUNDARY}--\r\n`);
    const data = await this.#send("POST", `/nodes/localhost/storage/${encodeURIComponent(storage)}/upload`, {
      type: `multipart/form-data; boundary=${BOUNDARY}`,
      length: before.length + file.size + after.length,
      write: async (to) => {
        to.write(before);
        const begun = systemClock.monotonic();
        let sent = 0;
        for await (const chunk of file.body) {
          if (to.destroyed === true) return;
          if (!to.write(chunk)) await roomIn(to as never);
          sent += chunk.length;
          work.progress(file.size === 0 ? 1 : sent / file.size);
          if (work.bytesPerSecond === undefined) continue;
          const early = (sent / work.bytesPerSecond) * 1000 - (systemClock.monotonic() - begun);
          if (early > 10) await systemClock.sleep(early, this.#signal);
        }
        to.write(after);
      },
    });
    return String(data);
  }

  async #send(method: string, path: string, body: Body): Promise<unknown> {
    const { host, port, apitoken } = this.#endpoint;
    const socket = await this.#connect();
    const what = `${method} ${path.replace(/\?.*$/, "")} at ${host}:${port}`;
    return new Promise((resolve, reject) => {
      const fail = (err: Error): void =>
        reject(new AppError("node.unavailable", `${what} failed: ${err.message}`, { cause: err }));
      const outgoing = request(
        {
          host,
          port,
          method,
          path: `/api2/json${path}`,
          createConnection: () => socket,
          signal: this.#signal,
          headers: {
            Authorization: `PVEAPIToken=${apitoken}`,
            Connection: "close",
            ...(body.length === 0 ? {} : { "Content-Type": body.type, "Content-Length": body.length }),
          },
        },
        (answer) => {
          const chunks: Buffer[] = [];
          let bytes = 0;
          answer.on("data", (chunk: Buffer) => {
            bytes += chunk.length;
            if (bytes > MAX_ANSWER_BYTES) answer.destroy(new Error("the answer has no end"));
            else chunks.push(chunk);
          });
          answer.on("error", fail);
          answer.on("end", () => {
            const text = Buffer.concat(chunks).toString("utf8");
            // Whoever answers may be no cluster at all.
            if (answer.statusCode === 200) {
              const data = dataOf(text);
              return data === undefined ? fail(new Error("that is no answer of PVE's API")) : resolve(data);
            }
            const why = messageIn(text) ?? `${answer.statusCode} ${answer.statusMessage ?? ""}`;
            reject(new AppError("operation.failed", `${what} was refused: ${why}`, { pveStatus: 500 }));
          });
        },
      );
      outgoing.on("error", fail);
      const written = body.length === 0 ? Promise.resolve() : body.write(outgoing);
      written.then(
        () => outgoing.end(),
        (err: unknown) => outgoing.destroy(err instanceof Error ? err : new Error(String(err))),
      );
    });
  }

  #connect(): Promise<TLSSocket> {
    const { host, port, fingerprint } = this.#endpoint;
    return new Promise((resolve, reject) => {
      const fail = (why: string): void => {
        socket.destroy();
        reject(new AppError("node.unavailable", `cannot reach the cluster at ${host}:${port}: ${why}`));
      };
      const known = fingerprint === undefined;
      const socket = connect(
        { host, port, rejectUnauthorized: known, minVersion: "TLSv1.2", timeout: CONNECT_MS },
        () => {
          const shown = socket.getPeerX509Certificate()?.fingerprint256 ?? "";
          if (fingerprint !== undefined && plainFingerprint(shown) !== plainFingerprint(fingerprint))
            return fail(`its certificate has another fingerprint (${shown}) than the one given`);
          socket.setTimeout(0);
          resolve(socket);
        },
      );
      socket.once("error", (err) =>
        fail(known ? `${err.message}; give the fingerprint of its certificate` : err.message),
      );
      socket.once("timeout", () => fail("no answer"));
    });
  }
}

/** undefined = it is no answer of PVE's. */
function dataOf(text: string): unknown {
  if (text === "") return null;
  try {
    const answer = JSON.parse(text) as unknown;
    return typeof answer === "object" && answer !== null && "data" in answer ? answer.data : undefined;
  } catch {
    return undefined;
  }
}

function messageIn(text: string): string | undefined {
  try {
    const { message, errors } = JSON.parse(text) as { message?: unknown; errors?: object };
    const said = typeof message === "string" ? message.trim() : "";
    const each = Object.entries(errors ?? {}).map(([key, why]) => `${key}: ${String(why).trim()}`);
    const all = [said, ...each].filter((part) => part !== "").join("; ");
    return all === "" ? undefined : all.slice(0, MAX_SAID);
  } catch {
    return undefined;
  }
}
