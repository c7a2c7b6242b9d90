// How bytes of a move look: a line of JSON says what a connection is for, then come plain bytes both ways, or, on the line
// that a move is led by, further lines of JSON.
import type { Duplex } from "node:stream";
import { AppError } from "@gpve/contracts/errors.ts";
import { parseBoundedJson } from "@gpve/kit/bounded-json.ts";
import { beginUrgentWork } from "@gpve/kit/urgent-work.ts";

/** ALPN: what agents say to each other, on the port where servers speak h2. */
export const MOVE_PROTOCOL = "gpve-move/1";

/** What the store of a virtual cluster commits, for whoever follows it. */
export const STANDBY_CHANNEL = "standby";

/** Where whoever follows it waits for a line that goes by way of no agent. */
export const STANDBY_PLACE_CHANNEL = "standby-place";

/** What carries the RAM of a guest. */
export const RAM_CHANNEL = "ram";

/** How long nothing comes before the other end is asked whether it is there. */
export const KEEP_ALIVE_MS = 10_000;
/** A configuration with all its snapshots. */
const MAX_LINE_BYTES = 2 * 1024 * 1024;
const NEWLINE = 0x0a;

export interface MoveHeader {
  readonly vmid: number;
  readonly moveId: string;
  /** "lead", "volume", or what a guest serves: "ram". */
  readonly channel: string;
  readonly volid?: string;
  readonly format?: string;
  readonly size?: number;
  /** Whoever takes what comes here is to say how much of it, by this name, on the line that leads. */
  readonly line?: string;
}

/** On the line that leads, from the node that takes the guest: what came by a connection, and was taken. */
export interface TakenLine {
  readonly taken: string;
  readonly bytes: number;
}

export function isTaken(line: unknown): line is TakenLine {
  const { taken, bytes } = (line ?? {}) as Partial<TakenLine>;
  return typeof taken === "string" && typeof bytes === "number";
}

export function writeLine(socket: Duplex, message: unknown): void {
  socket.write(`${JSON.stringify(message)}\n`);
}

/** The next line; what comes after it stays in the stream. undefined = the other side has ended. */
export async function readLine(socket: Duplex): Promise<unknown> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for (;;) {
    const chunk = (socket.read() ?? undefined) as Buffer | undefined;
    if (chunk === undefined) {
      if (socket.readableEnded || socket.destroyed) return undefined;
      await readable(socket);
      continue;
    }
    const end = chunk.indexOf(NEWLINE);
    parts.push(end < 0 ? chunk : chunk.subarray(0, end));
    bytes += chunk.length;
    if (end < 0 && bytes > MAX_LINE_BYTES)
      throw new AppError("request.invalid", "the other end of a move sends a line without end");
    if (end < 0) continue;
    if (end + 1 < chunk.length) socket.unshift(chunk.subarray(end + 1));
    return parseBoundedJson(Buffer.concat(parts).toString("utf8"));
  }
}

/** So many bytes, and no more; throws when the other side ends before. */
export async function* readBytes(socket: Duplex, size: number): AsyncGenerator<Uint8Array> {
  for (let left = size; left > 0;) {
    const chunk = (socket.read() ?? undefined) as Buffer | undefined;
    if (chunk === undefined) {
      if (socket.readableEnded || socket.destroyed)
        throw new AppError("node.unavailable", `the other end of a move hung up with ${left} bytes to come`);
      await readable(socket);
      continue;
    }
    if (chunk.length > left) socket.unshift(chunk.subarray(left));
    yield chunk.subarray(0, left);
    left -= Math.min(left, chunk.length);
  }
}

function readable(socket: Duplex): Promise<void> {
  return new Promise((resolve) => {
    const events = ["readable", "end", "close", "error"] as const;
    const done = (): void => {
      for (const event of events) socket.removeListener(event, done);
      resolve();
    };
    for (const event of events) socket.on(event, done);
  });
}

export function decodeHeader(line: unknown): MoveHeader | undefined {
  const { vmid, moveId, channel, volid, format, size, line: name } = (line ?? {}) as Partial<MoveHeader>;
  if (typeof vmid !== "number" || typeof moveId !== "string" || typeof channel !== "string") return undefined;
  return {
    vmid,
    moveId,
    channel,
    ...(typeof volid === "string" ? { volid } : {}),
    ...(typeof format === "string" ? { format } : {}),
    ...(typeof size === "number" ? { size } : {}),
    ...(typeof name === "string" ? { line: name } : {}),
  };
}

/** How bytes get from one to the other. */
type Carry = (from: Duplex, to: Duplex) => void;

const plainly: Carry = (from, to) => void from.pipe(to);

/** Both ways, until both have ended; a failure of one ends the other. */
export function join(a: Duplex, b: Duplex, carry: Carry = plainly): void {
  const link = (from: Duplex, to: Duplex, carried: Carry): void => {
    carried(from, to);
    from.on("error", () => to.destroy());
    // What was read before a proper end is still on its way.
    from.on("close", () => (from.readableEnded ? to.end() : to.destroy()));
  };
  link(a, b, carry);
  link(b, a, plainly);
}

/** As above, for what a guest stands still for in the end: it goes before other work of this machine. */
export function joinUrgently(a: Duplex, b: Duplex, carry: Carry): void {
  const done = beginUrgentWork();
  a.once("close", done);
  b.once("close", done);
  if (a.destroyed || b.destroyed) done();
  join(a, b, carry);
}
