// A websocket of binary messages as two streams of bytes: one to a node, one from it.
import { createWebSocketStream, WebSocketServer, type WebSocket } from "ws";
import { roomIn } from "@gpve/kit/stream-room.ts";

/** For lines of bytes, whose sockets its caller looks after. */
export function byteSockets(maxPayload: number): WebSocketServer {
  return new WebSocketServer({
    noServer: true,
    clientTracking: false,
    maxPayload,
    perMessageDeflate: false,
    handleProtocols: (offered) => (offered.has("binary") ? "binary" : false),
  });
}

/** Until either side ends; `received` gets what the client sends. */
export async function joinStreams(
  ws: WebSocket,
  output: AsyncIterable<Uint8Array>,
  received: (input: AsyncIterable<Uint8Array>) => void,
): Promise<void> {
  const stream = createWebSocketStream(ws);
  // Who goes without a word has hung up.
  stream.on("error", () => stream.destroy());
  // The node's side may end first: what it has said is still sent.
  received(stream.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>);
  try {
    for await (const chunk of output) {
      if (stream.destroyed) break;
      if (!stream.write(chunk)) await roomIn(stream);
    }
  } finally {
    ws.close();
  }
}

/** Of a client that is let in once its line stands. */
export async function* whenThere(client: Promise<AsyncIterable<Uint8Array>>): AsyncGenerator<Uint8Array> {
  yield* await client;
}
