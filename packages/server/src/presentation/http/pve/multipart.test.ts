import { given } from "@gpve/contracts/given.ts";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { boundaryOf, MultipartError, MultipartReader } from "./multipart.ts";

interface Part {
  readonly name: string | undefined;
  readonly fileName: string | undefined;
  readonly body: string;
}

function readAll(boundary: string, chunks: readonly Buffer[]): { parts: Part[]; ended: boolean } {
  const reader = new MultipartReader(boundary);
  const parts: { name: string | undefined; fileName: string | undefined; bytes: Buffer[] }[] = [];
  let ended = false;
  for (const chunk of chunks) {
    for (const event of reader.push(chunk)) {
      if (event.kind === "part") parts.push({ ...event.head, bytes: [] });
      else if (event.kind === "data") parts.at(-1)?.bytes.push(Buffer.from(event.bytes));
      else if (event.kind === "end") ended = true;
    }
  }
  reader.finish();
  return {
    ended,
    parts: parts.map(({ bytes, ...head }) => ({ ...head, body: Buffer.concat(bytes).toString("latin1") })),
  };
}

function form(boundary: string, parts: readonly { name: string; file?: string; body: Buffer }[]): Buffer {
  const pieces = parts.flatMap(({ name, file, body }) => [
    Buffer.from(
      `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${file === undefined ? "" : `; filename="${file}"`}\r\n` +
        (file === undefined ? "\r\n" : "Content-Type: application/octet-stream\r\n\r\n"),
    ),
    body,
    Buffer.from("\r\n"),
  ]);
  return Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)]);
}

function cut(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const out: Buffer[] = [];
  let at = 0;
  for (const size of sizes) {
    out.push(bytes.subarray(at, at + size));
    at += size;
  }
  return [...out, bytes.subarray(at)];
}

describe("multipart forms", () => {
  it("come out as they went in, however they are cut and whatever they hold", () => {
    const boundary = "b0undary";
    const tricky = fc.array(
      fc.constantFrom("\r\n", "--", "\r", "\n", "--b0undar", "\r\n--b0undar", "x", "\0", "b0undary"),
      { maxLength: 12 },
    );
    const body = fc.oneof(
      tricky.map((parts) => Buffer.from(parts.join("").replaceAll("\r\n--b0undary", "?"))),
      fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
    );
    const part = fc.record({
      name: fc.constantFrom("content", "filename", "a b"),
      file: fc.option(fc.constantFrom("x.iso", "a;b.iso", "ü.iso"), { nil: undefined }),
      body,
    });
    fc.assert(
      fc.property(
        fc.array(part, { minLength: 1, maxLength: 4 }),
        fc.array(fc.nat(40), { maxLength: 20 }),
        (parts, sizes) => {
          const fields = parts.map(({ name, file, body: bytes }) => ({
            name,
            body: bytes,
            ...given({ file }),
          }));
          const read = readAll(boundary, cut(form(boundary, fields), sizes));
          expect(read.ended).toBe(true);
          expect(read.parts).toEqual(
            parts.map(({ name, file, body: bytes }) => ({
              name,
              fileName: file,
              body: bytes.toString("latin1"),
            })),
          );
        },
      ),
    );
  });

  it("may have text before the first boundary and after the last", () => {
    const bytes = Buffer.concat([
      Buffer.from("hello\r\n"),
      form("b", [{ name: "a", body: Buffer.from("1") }]),
      Buffer.from("bye"),
    ]);
    expect(readAll("b", [bytes]).parts).toEqual([{ name: "a", fileName: undefined, body: "1" }]);
  });

  it("hold back no more of a file than a boundary could be", () => {
    const reader = new MultipartReader("b");
    const start = form("b", [{ name: "f", file: "x", body: Buffer.alloc(0) }]).subarray(0, -9);
    let received = 0;
    for (const chunk of [start, Buffer.alloc(100_000, 0x61)]) {
      for (const event of reader.push(chunk)) if (event.kind === "data") received += event.bytes.length;
    }
    expect(received).toBeGreaterThan(99_990);
  });

  it("are refused when cut off, garbled or with endless headers", () => {
    const whole = form("b", [{ name: "a", body: Buffer.from("1") }]);
    expect(() => readAll("b", [whole.subarray(0, -6)])).toThrow(MultipartError);
    expect(() => readAll("b", [Buffer.from("--bxx\r\n")])).toThrow("garbage after a boundary");
    expect(() => readAll("b", [Buffer.from(`--b\r\n${"x".repeat(9000)}`)])).toThrow("too long");
    expect(() => readAll("b", [])).toThrow("cut off");
  });

  it("understand quoted and unquoted names", () => {
    const text =
      '--b\r\nContent-Disposition: form-data; name=plain; filename="a\\"b"\r\n\r\n1\r\n--b\r\n\r\n2\r\n--b--';
    expect(readAll("b", [Buffer.from(text)]).parts).toEqual([
      { name: "plain", fileName: 'a"b', body: "1" },
      { name: undefined, fileName: undefined, body: "2" },
    ]);
  });

  it("are told apart by the boundary their header names", () => {
    expect(boundaryOf("multipart/form-data; boundary=abc")).toBe("abc");
    expect(boundaryOf('multipart/form-data; charset=x; boundary="a b"')).toBe("a b");
    expect(boundaryOf("multipart/form-data")).toBeUndefined();
  });
});
