import type { IncomingMessage } from "node:http";

export type BodyRead =
  | { readonly ok: true; readonly body: Buffer }
  | { readonly ok: false; readonly why: "too-large" | "aborted" };

/** A small body that is not there by then is not coming. */
const BODY_TIMEOUT_MS = 60_000;
const NOTHING = Buffer.alloc(0);

/** Reads a whole request body, never more than `limit` bytes. */
export function readBody(req: IncomingMessage, limit: number): Promise<BodyRead> {
  const declared = Number(req.headers["content-length"] ?? 0);
  if (declared > limit) return Promise.resolve({ ok: false, why: "too-large" });
  if (declared === 0 && req.headers["transfer-encoding"] === undefined) {
    return Promise.resolve({ ok: true, body: NOTHING });
  }
  return new Promise((settle) => {
    const timer = setTimeout(() => {
      req.socket.destroy();
      resolve({ ok: false, why: "aborted" });
    }, BODY_TIMEOUT_MS);
    const resolve = (read: BodyRead): void => {
      clearTimeout(timer);
      settle(read);
    };
    const chunks: Buffer[] = [];
    let size = 0;
    req.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size > limit) {
        req.pause();
        resolve({ ok: false, why: "too-large" });
        return;
      }
      chunks.push(chunk);
    });
    req.on("end", () =>
      resolve({
        ok: true,
        body: chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks),
      }),
    );
    req.on("error", () => resolve({ ok: false, why: "aborted" }));
    req.on("close", () => resolve({ ok: false, why: "aborted" }));
  });
}
