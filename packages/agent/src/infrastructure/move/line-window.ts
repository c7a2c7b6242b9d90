// How much of a guest's RAM is under way between two agents. In the end the guest stands still for what it has sent and the
// other end has not taken yet, and the kernel's buffers alone hold some ten megabytes. So the other end says on the line that
// leads what its guest has taken, and no more than a window of it is sent ahead. One that says nothing is sent all it takes.
import { Socket } from "node:net";
import type { Duplex } from "node:stream";

const MIB = 1024 ** 2;
/** As much as two busy agents pass on before they hear of each other. */
const WINDOW_BYTES = 3 * MIB;
/** The other end tells of so much at once. */
const TELL_BYTES = MIB / 4;
/** With so much that a socket has not taken yet, no more is read for it: less, and each piece would be waited for. */
const AHEAD_BYTES = MIB / 2;

/** What one connection has under way, as who sends sees it. */
export class LineWindow {
  #sent = 0;
  /** undefined = the other end tells nothing. */
  #taken: number | undefined;
  #onRoom: (() => void) | undefined;

  send(bytes: number): void {
    this.#sent += bytes;
  }

  took(bytes: number): void {
    this.#taken = Math.max(bytes, this.#taken ?? 0);
    if (this.isFull) return;
    const onRoom = this.#onRoom;
    this.#onRoom = undefined;
    onRoom?.();
  }

  get isFull(): boolean {
    return this.#taken !== undefined && this.#sent - this.#taken > WINDOW_BYTES;
  }

  /** Once. */
  whenRoom(then: () => void): void {
    this.#onRoom = then;
  }
}

/** As `pipe`, but no further ahead than the window allows. */
export function sendWithin(from: Duplex, to: Duplex, window = new LineWindow()): void {
  const goOn = (): void => {
    if (isBehind(to)) to.once("drain", goOn);
    else if (window.isFull) window.whenRoom(goOn);
    else from.resume();
  };
  from.on("data", (chunk: Buffer) => {
    window.send(chunk.length);
    writeAll(to, [chunk]);
    if (!isBehind(to) && !window.isFull) return;
    from.pause();
    goOn();
  });
  from.on("end", () => to.end());
  from.resume();
}

/**
 * As `pipe`, and tells what was taken, from the beginning on. What TLS gives comes in pieces of 16 KiB: all that is there is
 * written at once.
 */
export function tellTaken(from: Duplex, to: Duplex, tell: (bytes: number) => void): void {
  let [taken, told] = [0, 0];
  const took = (bytes: number): void => {
    taken += bytes;
    if (taken - told < TELL_BYTES) return;
    told = taken;
    tell(taken);
  };
  let pieces: Buffer[] = [];
  let bytes = 0;
  let soon: NodeJS.Immediate | undefined;
  const pass = (): void => {
    clearImmediate(soon);
    soon = undefined;
    const [all, size] = [pieces, bytes];
    [pieces, bytes] = [[], 0];
    writeAll(to, all, () => took(size));
    if (!isBehind(to)) return;
    from.pause();
    to.once("drain", () => from.resume());
  };
  tell(0);
  from.on("data", (chunk: Buffer) => {
    pieces.push(chunk);
    bytes += chunk.length;
    if (bytes >= TELL_BYTES) pass();
    else soon ??= setImmediate(pass);
  });
  from.on("end", () => {
    pass();
    to.end();
  });
  from.resume();
}

/** Only one that has said so tells when it has caught up. */
function isBehind(to: Duplex): boolean {
  return to.writableNeedDrain && to.writableLength > AHEAD_BYTES;
}

/**
 * Memory of what a socket has taken is given back at once. Left to the collector it is not looked at for 64 MiB, and then with
 * all else that the process holds: an agent spent more time on that than on the bytes.
 */
function writeAll(to: Duplex, pieces: readonly Buffer[], whenTaken = (): void => undefined): void {
  const last = pieces.at(-1);
  if (last === undefined) return;
  if (pieces.length > 1) to.cork();
  for (const piece of pieces.slice(0, -1)) to.write(piece);
  // Writes are taken in turn: with the last one all are.
  to.write(last, (err) => {
    if (err) return;
    whenTaken();
    if (to instanceof Socket) for (const piece of pieces) giveBack(piece);
  });
  if (pieces.length > 1) to.uncork();
}

/** Unless others have a part of the same memory. */
function giveBack({ buffer, byteLength }: Buffer): void {
  if (buffer instanceof ArrayBuffer && byteLength === buffer.byteLength) buffer.transfer(0);
}
