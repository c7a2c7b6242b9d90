// A streaming reader of multipart/form-data (RFC 7578) for bodies of any size: bytes go in as they arrive, parts come
// out; nothing is held back but what might be the beginning of a boundary.

export interface PartHead {
  readonly name: string | undefined;
  readonly fileName: string | undefined;
}

export type MultipartEvent =
  | { readonly kind: "part"; readonly head: PartHead }
  | { readonly kind: "data"; readonly bytes: Buffer }
  | { readonly kind: "part-end" }
  | { readonly kind: "end" };

export class MultipartError extends Error {}

const MAX_HEAD_BYTES = 8 * 1024;
const HEAD_END = Buffer.from("\r\n\r\n");

/** undefined when the header names no usable boundary. */
export function boundaryOf(contentType: string): string | undefined {
  const match = /;\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))/i.exec(contentType);
  return match?.[1] ?? match?.[2];
}

type State = "preamble" | "after-boundary" | "head" | "body" | "done";

export class MultipartReader {
  readonly #delimiter: Buffer;
  #state: State = "preamble";
  #rest: Buffer;

  constructor(boundary: string) {
    this.#delimiter = Buffer.from(`\r\n--${boundary}`, "latin1");
    // The first boundary has no line before it; with this it looks like all others.
    this.#rest = Buffer.from("\r\n");
  }

  /** Events of the next bytes. Throws MultipartError on what is no form. */
  *push(chunk: Buffer): Generator<MultipartEvent> {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    for (;;) {
      const before = this.#state;
      const length = this.#rest.length;
      yield* this.#step();
      if (this.#state === before && this.#rest.length === length) return;
      if (this.#state === "done") {
        this.#rest = Buffer.alloc(0);
        return;
      }
    }
  }

  /** To be called at the end of the body. */
  finish(): void {
    if (this.#state !== "done") throw new MultipartError("the form is cut off");
  }

  *#step(): Generator<MultipartEvent> {
    switch (this.#state) {
      case "preamble": {
        const at = this.#rest.indexOf(this.#delimiter);
        if (at >= 0) this.#enter("after-boundary", at + this.#delimiter.length);
        else this.#rest = this.#rest.subarray(Math.max(0, this.#rest.length - this.#delimiter.length));
        return;
      }
      case "after-boundary":
        if (this.#rest.length < 2) return;
        if (this.#rest[0] === 0x2d && this.#rest[1] === 0x2d) {
          this.#enter("done", 2);
          yield { kind: "end" };
        } else if (this.#rest[0] === 0x0d && this.#rest[1] === 0x0a) {
          // The line end stays: a part without any header begins with the empty line itself.
          this.#enter("head", 0);
        } else throw new MultipartError("garbage after a boundary");
        return;
      case "head": {
        const end = this.#rest.indexOf(HEAD_END);
        if (end > MAX_HEAD_BYTES || (end < 0 && this.#rest.length > MAX_HEAD_BYTES)) {
          throw new MultipartError("the header of a part is too long");
        }
        if (end < 0) return;
        const head = parseHead(this.#rest.toString("utf8", 0, end));
        this.#enter("body", end + HEAD_END.length);
        yield { kind: "part", head };
        return;
      }
      case "body":
        yield* this.#body();
        return;
      case "done":
        return;
    }
  }

  *#body(): Generator<MultipartEvent> {
    const at = this.#rest.indexOf(this.#delimiter);
    if (at >= 0) {
      if (at > 0) yield { kind: "data", bytes: this.#rest.subarray(0, at) };
      this.#enter("after-boundary", at + this.#delimiter.length);
      yield { kind: "part-end" };
      return;
    }
    const safe = this.#rest.length - this.#delimiter.length + 1;
    if (safe <= 0) return;
    const bytes = this.#rest.subarray(0, safe);
    this.#rest = this.#rest.subarray(safe);
    yield { kind: "data", bytes };
  }

  #enter(state: State, skip: number): void {
    this.#state = state;
    this.#rest = this.#rest.subarray(skip);
  }
}

function parseHead(text: string): PartHead {
  const line = text.split("\r\n").find((each) => /^content-disposition\s*:/i.test(each)) ?? "";
  return { name: parameter(line, "name"), fileName: parameter(line, "filename") };
}

/** `name="a\"b"`: browsers write quotes as %22 or with a backslash. */
function parameter(line: string, name: string): string | undefined {
  const match = new RegExp(`;\\s*${name}=(?:"((?:[^"\\\\]|\\\\.)*)"|([^;\\s]+))`, "i").exec(line);
  if (match === null) return undefined;
  return match[1] === undefined ? match[2] : match[1].replaceAll(/\\(["\\])/g, "$1");
}
