import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";

/** PVE's own answer for a path that has no websocket. */
export function refuseUpgrade(req: IncomingMessage, socket: Socket): void {
  const path = (req.url ?? "").split("?", 1)[0]?.replace(/^\/api2\/[a-z]+/, "") ?? "";
  const text = `Method 'GET ${path}' not implemented`.replaceAll(/[^\t\x20-\x7e]/g, " ");
  socket.end(`HTTP/1.1 501 ${text}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
}
