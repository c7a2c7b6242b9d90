import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";

/** No websocket endpoint is served yet: PVE's own answer for a path that has none. */
export function refuseUpgrade(req: IncomingMessage, socket: Socket): void {
  const path = (req.url ?? "").split("?", 1)[0]?.replace(/^\/api2\/[a-z]+/, "") ?? "";
  const text = `Method 'GET ${path}' not implemented`.replaceAll(/[^\t\x20-\x7e]/g, " ");
  socket.end(`HTTP/1.1 501 ${text}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
}
