// What a terminal's client sends: one line with who it is, then frames `0:<bytes>:<data>` (keys),
// `1:<columns>:<rows>:` (its size) and `2` (still there). Frames may be cut anywhere.

export type TerminalEvent =
  | { readonly kind: "login"; readonly user: string; readonly ticket: string }
  | { readonly kind: "input"; readonly bytes: Buffer }
  | { readonly kind: "resize"; readonly columns: number; readonly rows: number };

const MAX_LOGIN_BYTES = 2048;
const MAX_HEAD_BYTES = 32;
const MAX_DATA_BYTES = 128 * 1024;
const COLON = 0x3a;

export class TerminalFrames {
  #rest: Buffer = Buffer.alloc(0);
  #isLoggedIn = false;

  /** Events of the next bytes. Throws on what is no frame. */
  *push(chunk: Uint8Array): Generator<TerminalEvent> {
    this.#rest = Buffer.concat([this.#rest, chunk]);
    for (;;) {
      const event = this.#isLoggedIn ? this.#frame() : this.#login();
      if (event === undefined) return;
      if (event !== "ping") yield event;
    }
  }

  #login(): TerminalEvent | undefined {
    const end = this.#rest.indexOf("\n");
    if (end > MAX_LOGIN_BYTES || (end < 0 && this.#rest.length > MAX_LOGIN_BYTES)) throw garbled();
    if (end < 0) return undefined;
    const line = this.#take(end + 1).toString("utf8", 0, end);
    const at = line.indexOf(":");
    if (at < 0) throw garbled();
    this.#isLoggedIn = true;
    return { kind: "login", user: line.slice(0, at), ticket: line.slice(at + 1) };
  }

  #frame(): TerminalEvent | "ping" | undefined {
    const type = this.#rest[0];
    if (type === undefined) return undefined;
    if (type === 0x32) {
      this.#take(1);
      return "ping";
    }
    if (type === 0x30) return this.#input();
    if (type === 0x31) return this.#resize();
    throw garbled();
  }

  #input(): TerminalEvent | undefined {
    const head = this.#head(2);
    if (head === undefined) return undefined;
    const length = head.numbers[0] ?? 0;
    if (length > MAX_DATA_BYTES) throw garbled();
    if (this.#rest.length < head.length + length) return undefined;
    this.#take(head.length);
    return { kind: "input", bytes: this.#take(length) };
  }

  #resize(): TerminalEvent | "ping" | undefined {
    const head = this.#head(3, /^(?:\d{1,6}|-\d{1,10})$/);
    if (head === undefined) return undefined;
    this.#take(head.length);
    const [columns = 0, rows = 0] = head.numbers;
    // go-proxmox without a terminal of its own tells sizes below zero: nothing to change then.
    return columns < 0 || rows < 0 ? "ping" : { kind: "resize", columns, rows };
  }

  /** The numbers between so many colons. */
  #head(
    colons: number,
    number = /^\d{1,6}$/,
  ): { readonly length: number; readonly numbers: readonly number[] } | undefined {
    let at = -1;
    for (let found = 0; found < colons; found++) {
      at = this.#rest.indexOf(COLON, at + 1);
      if (at > MAX_HEAD_BYTES || (at < 0 && this.#rest.length > MAX_HEAD_BYTES)) throw garbled();
      if (at < 0) return undefined;
    }
    const fields = this.#rest.toString("latin1", 2, at).split(":");
    if (this.#rest[1] !== COLON || fields.some((field) => !number.test(field))) throw garbled();
    return { length: at + 1, numbers: fields.map(Number) };
  }

  #take(length: number): Buffer {
    const taken = this.#rest.subarray(0, length);
    this.#rest = this.#rest.subarray(length);
    return taken;
  }
}

/** As the program that holds a node's terminal reads them: `d` with length and keys, `r` with the size. */
export function shellFrame(event: Exclude<TerminalEvent, { kind: "login" }>): Buffer {
  const head = Buffer.alloc(5);
  if (event.kind === "input") {
    head.write("d", "latin1");
    head.writeUInt32BE(event.bytes.length, 1);
    return Buffer.concat([head, event.bytes]);
  }
  head.write("r", "latin1");
  head.writeUInt16BE(Math.min(event.columns, 0xffff), 1);
  head.writeUInt16BE(Math.min(event.rows, 0xffff), 3);
  return head;
}

function garbled(): Error {
  return new Error("this is not what a terminal's client says");
}
