import type { IncomingMessage } from "node:http";

export type BodyRead =
  | { readonly ok: true; readonly body: Buffer }
  | { readonly ok: false; readonly why: "too-large" | "aborted" };

/** For a peer that has not proven who it is: a login fits. */
export const STRANGERS_BODY = { bytes: 64 * 1024, ms: 10_000 };
/** Of all bodies that are being read; one more byte, and the newest is let go. */
const MAX_BUFFERED_BYTES = 64 * 1024 * 1024;
let buffered = 0;

/** A small body that is not there by then is not coming. */
const BODY_TIMEOUT_MS = 60_000;
const NOTHING = Buffer.alloc(0);

/** Reads a whole request body, never more than `limit` bytes. */
export function readBody(
  req: IncomingMessage,
  limit: number,
  timeoutMs = BODY_TIMEOUT_MS,
): Promise<BodyRead> {
  const declared = Number(req.headers["content-length"] ?? 0);
  if (declared > limit) return Promise.resolve({ ok: false, why: "too-large" });
  if (declared === 0 && req.headers["transfer-encoding"] === undefined) {
    return Promise.resolve({ ok: true, body: NOTHING });
  }
  return new Promise((settle) => {
    const timer = setTimeout(() => {
      req.socket.destroy();
      resolve({ ok: false, why: "aborted" });
    }, timeoutMs);
    const chunks: Buffer[] = [];
    let size = 0;
    let settled = false;
    const resolve = (read: BodyRead): void => {
      if (settled) return;
      settled = true;
      buffered -= size;
      clearTimeout(timer);
      settle(read);
    };
    req.on("data", (chunk: Buffer) => {
      if (settled) return;
      size += chunk.length;
      buffered += chunk.length;
      if (buffered > MAX_BUFFERED_BYTES) {
        chunks.length = 0;
        resolve({ ok: false, why: "aborted" });
        req.socket.destroy();
        return;
      }
      if (size > limit) {
        req.pause();
        chunks.length = 0;
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
