import type { Socket } from "node:net";

/** What to answer when the bytes were not an HTTP request at all. The connection is closed in every case. */
export function badRequestLine(err: NodeJS.ErrnoException, socket: Socket): void {
  if (!socket.writable || err.code === "ECONNRESET" || socket.destroyed) {
    socket.destroy();
    return;
  }
  const [status, reason] = answer(err.code ?? "");
  socket.end(`HTTP/1.1 ${status} ${reason}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`, () =>
    socket.destroy(),
  );
}

function answer(code: string): [number, string] {
  switch (code) {
    case "HPE_INVALID_VERSION":
      return [506, "http protocol version not supported"];
    case "HPE_HEADER_OVERFLOW":
      return [431, "Request Header Fields Too Large"];
    case "HPE_INVALID_METHOD":
      return [501, "method not available"];
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return [408, "Request Timeout"];
    default:
      return [400, "Bad Request"];
  }
}
