import { describe, expect, it } from "vitest";
import { isAppError } from "@gpve/contracts/errors.ts";
import { readQmpMessage } from "./qmp-messages.ts";

const line = (message: unknown): string => JSON.stringify(message);

describe("a line of a monitor", () => {
  it("is an event, a greeting or an answer", () => {
    const event = { timestamp: { seconds: 2, microseconds: 5_000 }, event: "RESUME", data: { a: 1 } };
    expect(readQmpMessage(line(event))).toEqual({
      kind: "event",
      event: { name: "RESUME", data: { a: 1 }, at: 2_005 },
    });
    const QMP = { version: { qemu: { major: 7, minor: 2, micro: 1 }, package: "x" }, capabilities: ["oob"] };
    expect(readQmpMessage(line({ QMP }))).toEqual({
      kind: "greeting",
      greeting: { version: { major: 7, minor: 2, micro: 1 }, package: "x", capabilities: ["oob"] },
    });
    expect(readQmpMessage(line({ return: [1], id: "a" }))).toEqual({ kind: "answer", id: "a", value: [1] });
    expect(readQmpMessage(line({ error: { class: "X", desc: "no" }, id: "a" }))).toEqual({
      kind: "answer",
      id: "a",
      error: { kind: "X", text: "no" },
    });
  });

  it("is never converted by what it brings along itself", () => {
    const trap = { toString: 1, valueOf: 1 };
    for (const message of [
      { event: trap, timestamp: { seconds: trap, microseconds: [trap] }, data: trap },
      { QMP: { version: { qemu: { major: trap } }, capabilities: [trap, "oob", null] } },
      { error: { class: trap, desc: trap }, id: "a" },
    ])
      expect(() => readQmpMessage(line(message))).not.toThrow();
  });

  it.each([
    "",
    "{",
    "[]",
    "null",
    "1",
    "{}",
    '{"return":1}',
    '{"error":{},"id":7}',
    '{"__proto__":{"event":"X"}}',
  ])("is refused as %j", (text) => {
    let thrown: unknown;
    try {
      readQmpMessage(text);
    } catch (err) {
      thrown = err;
    }
    expect(isAppError(thrown)).toBe(true);
  });
});
