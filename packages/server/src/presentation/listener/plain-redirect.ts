import type { IncomingMessage, ServerResponse } from "node:http";

/** Plain HTTP on the TLS port: GET is moved, writes keep their method, anything else does not exist. */
export function redirectToTls(req: IncomingMessage, res: ServerResponse): void {
  const method = req.method ?? "";
  res.setHeader("Connection", "close");
  if (!["GET", "POST", "PUT", "DELETE"].includes(method)) {
    res.writeHead(501, `method '${method}' not available`, { "Content-Length": 0 });
    res.end();
    return;
  }
  const host = req.headers.host;
  if (host === undefined) {
    req.socket.destroy();
    return;
  }
  const moved = method === "GET" ? 301 : 308;
  res.writeHead(moved, { Location: `https://${host}${req.url ?? "/"}`, "Content-Length": 0 });
  res.end();
}
