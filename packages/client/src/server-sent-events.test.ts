import fc from "fast-check";
import { expect, test } from "vitest";
import { EventStreamParser } from "./server-sent-events.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

test("reads events with names, ids, several data lines and comments", () => {
  const parser = new EventStreamParser();
  const text = ": hi\nevent: ADDED\nid: 7\ndata: a\ndata:b\n\ndata\r\n\r\nevent: x\n\nretry: 5\ndata: c\n\n";
  expect(parser.push(bytes(text))).toEqual([
    { event: "ADDED", data: "a\nb", id: "7" },
    { event: "message", data: "", id: "7" },
    { event: "message", data: "c", id: "7" },
  ]);
});

test("gives the same events however the bytes are cut, for every line ending", () => {
  const line = fc.string({ unit: "grapheme" }).map((text) => text.replace(/[\r\n\0]/g, ""));
  fc.assert(
    fc.property(
      fc.array(fc.record({ id: line, data: fc.array(line, { minLength: 1, maxLength: 3 }) }), {
        maxLength: 5,
      }),
      fc.constantFrom("\n", "\r\n", "\r"),
      fc.integer({ min: 1, max: 7 }),
      (events, end, size) => {
        const wire = bytes(
          events
            .map(({ id, data }) => [`id: ${id}`, ...data.map((one) => `data: ${one}`), "", ""].join(end))
            .join(""),
        );
        const parser = new EventStreamParser();
        const seen = [];
        for (let at = 0; at < wire.length; at += size)
          seen.push(...parser.push(wire.subarray(at, at + size)));
        expect(seen).toEqual(events.map(({ id, data }) => ({ event: "message", id, data: data.join("\n") })));
      },
    ),
  );
});
