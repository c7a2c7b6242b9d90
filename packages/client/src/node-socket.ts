// Websockets of Node, with the same trust in the server as every other request.
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import type { Agent } from "node:https";
import { createWebSocketStream, WebSocket } from "ws";
import { AppError } from "@gpve/contracts/errors.ts";
import { responseError } from "./response-error.ts";
import type { MessageSocket, SocketRequest } from "./transport.ts";

const MAX_REFUSAL = 64 * 1024;

export function openWebSocket(
  target: { readonly url: URL; readonly agent: Agent },
  request: SocketRequest,
  timeoutMs: number,
): Promise<MessageSocket> {
  const url = new URL(target.url);
  url.protocol = "wss:";
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, ["binary"], {
      agent: target.agent,
      headers: request.headers,
      perMessageDeflate: false,
      ...(timeoutMs > 0 ? { handshakeTimeout: timeoutMs } : {}),
    });
    const onAbort = (): void => socket.terminate();
    request.signal?.addEventListener("abort", onAbort, { once: true });
    if (request.signal?.aborted === true) onAbort();
    socket.once("close", () => request.signal?.removeEventListener("abort", onAbort));
    socket.once("unexpected-response", (_asked, answer) => {
      void refusalOf(answer, request.path)
        .then(reject, reject)
        .finally(() => socket.terminate());
    });
    socket.on("error", reject);
    socket.once("open", () => resolve(messageSocket(socket)));
  });
}

/** In the words of whichever face it was asked of. */
function refusalOf(answer: IncomingMessage, path: string): Promise<AppError> {
  const text = async (): Promise<string> => {
    let said = "";
    for await (const piece of answer.setEncoding("utf8")) {
      said += piece as string;
      if (said.length > MAX_REFUSAL) break;
    }
    return said;
  };
  return responseError(
    {
      status: answer.statusCode ?? 0,
      reason: Buffer.from(answer.statusMessage ?? "", "latin1").toString("utf8"),
      headers: { "content-type": answer.headers["content-type"] ?? "" },
      text,
    },
    { method: "GET", path },
  );
}

function messageSocket(socket: WebSocket): MessageSocket {
  const stream = createWebSocketStream(socket);
  // Told to whoever reads; nobody may be reading yet.
  stream.on("error", () => undefined);
  return {
    messages: pieces(stream),
    send: async (message) => {
      if (stream.destroyed) throw new AppError("node.unavailable", "the connection is closed");
      if (stream.write(message)) return;
      const room = new AbortController();
      await Promise.race([
        once(stream, "drain", { signal: room.signal }),
        once(stream, "close", { signal: room.signal }),
      ]).finally(() => room.abort());
    },
    close: () => {
      socket.close();
      stream.destroy();
    },
  };
}

async function* pieces(stream: AsyncIterable<Uint8Array> & { destroyed: boolean }) {
  try {
    yield* stream;
  } catch (err) {
    // Closed by ourselves while it was read.
    if (isPrematureClose(err)) return;
    throw new AppError("node.unavailable", "the connection broke off", { cause: err });
  }
}

function isPrematureClose(err: unknown): boolean {
  return err instanceof Error && "code" in err && err.code === "ERR_STREAM_PREMATURE_CLOSE";
}
