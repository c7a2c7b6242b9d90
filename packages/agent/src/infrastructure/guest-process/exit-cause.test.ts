import { describe, expect, it } from "vitest";
import { causeOf } from "./exit-cause.ts";
import { FIRST_GUEST_UID, guestUid } from "./guest-uid.ts";
import { monitorArgs } from "./monitors.ts";

describe("how a guest ended", () => {
  const facts = { sameBoot: true, lastWords: "" };

  it.each([
    ["stopped", { ...facts, exitCode: 0, note: { by: "us" as const } }],
    ["stopped", { ...facts, signal: 9, note: { by: "us" as const } }],
    ["shutdown", { ...facts, exitCode: 0, note: { by: "guest" as const } }],
    ["shutdown", { ...facts, exitCode: 0, signal: 0 }],
    ["killed", { ...facts, exitCode: 0, lastWords: "qemu: terminating on signal 15 from pid 1 (x)" }],
    ["killed", { ...facts, exitCode: -1, signal: 9 }],
    ["killed", { ...facts, exitCode: -1, signal: 15 }],
    ["crashed", { ...facts, exitCode: -1, signal: 11 }],
    ["crashed", { ...facts, exitCode: 1, signal: 0 }],
    ["unknown", facts],
    ["hostReboot", { ...facts, sameBoot: false }],
  ])("is told as %s", (cause, input) => {
    expect(causeOf(input)).toBe(cause);
  });
});

describe("the uid of a guest", () => {
  it("is stable, high, its own, and shared with its helpers", () => {
    const uid = guestUid("abcdef", "100");
    expect(uid).toBe(guestUid("abcdef", "100"));
    expect(uid).toBe(guestUid("abcdef", "100-tpm"));
    expect(uid).not.toBe(guestUid("abcdef", "101"));
    expect(uid).not.toBe(guestUid("abcde0", "100"));
    expect(uid).toBeGreaterThanOrEqual(FIRST_GUEST_UID);
    expect(uid).toBeLessThan(2 ** 31);
    expect(guestUid("abcdef", "100", new Set([uid]))).not.toBe(uid);
  });
});

describe("QEMU's monitors", () => {
  it("are given as listening descriptors", () => {
    expect(monitorArgs().slice(0, 4)).toEqual([
      "-chardev",
      "socket,id=qmp,fd=10,server=on,wait=off",
      "-mon",
      "chardev=qmp,mode=control",
    ]);
  });
});
