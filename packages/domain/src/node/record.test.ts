import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  decodeJoinToken,
  decodeNodeRecord,
  formatJoinToken,
  isNodeName,
  parseJoinToken,
  plainFingerprint,
  type JoinTokenRecord,
  type NodeRecord,
} from "./record.ts";

const hex = (length: number): fc.Arbitrary<string> =>
  fc.string({
    unit: fc.constantFrom(...Array.from("0123456789abcdef")),
    minLength: length,
    maxLength: length,
  });

describe("node records", () => {
  test("survive a trip through JSON", () => {
    const record: NodeRecord = {
      name: "n1",
      nodeid: 1,
      address: "10.0.0.1",
      port: 8444,
      certFingerprint: "AA",
      previousFingerprint: "BB",
      joinedAt: 5,
      labels: { zone: "a" },
      taints: ["gpu"],
    };
    expect(decodeNodeRecord(JSON.parse(JSON.stringify(record)))).toEqual(record);
    const token: JoinTokenRecord = {
      id: "abcd",
      hash: "h",
      expiresAt: 1,
      createdBy: "root@pam",
      node: "n1",
      usedBy: { node: "n1", keyFingerprint: "k" },
    };
    expect(decodeJoinToken(JSON.parse(JSON.stringify(token)))).toEqual(token);
    expect(decodeJoinToken({ id: "abcd", hash: "h", expiresAt: 1, createdBy: "x" }).usedBy).toBeUndefined();
  });

  test("fill in what older versions did not write", () => {
    const old = { name: "n", nodeid: 1, address: "a", port: 1, certFingerprint: "", joinedAt: 0 };
    expect(decodeNodeRecord(old)).toMatchObject({ labels: {}, taints: [] });
  });

  test("refuse shapes they do not know", () => {
    expect(() => decodeNodeRecord([])).toThrow(/not an object/);
    expect(() => decodeNodeRecord({ name: 3 })).toThrow(/name/);
    expect(() => decodeNodeRecord({ name: "n", nodeid: "1" })).toThrow(/nodeid/);
    expect(() => decodeJoinToken(null)).toThrow(/join token/);
  });

  test("node names are DNS labels", () => {
    expect(["n1", "a", "Node-01"].every(isNodeName)).toBe(true);
    expect(["", "-a", "a-", "a.b", "a/b", "x".repeat(64)].some(isNodeName)).toBe(false);
  });

  test("join tokens parse back to what they were made of, and nothing else parses", () => {
    const secret = fc.string({
      unit: fc.constantFrom(...Array.from("abzAZ09_-")),
      minLength: 43,
      maxLength: 43,
    });
    fc.assert(
      fc.property(hex(12), secret, hex(64), (id, value, caFingerprint) => {
        const token = { id, secret: value, caFingerprint };
        expect(parseJoinToken(` ${formatJoinToken(token)}\n`)).toEqual(token);
      }),
    );
    fc.assert(fc.property(fc.string(), (value) => parseJoinToken(value) === undefined));
    expect(plainFingerprint("AA:0B")).toBe("aa0b");
  });
});
