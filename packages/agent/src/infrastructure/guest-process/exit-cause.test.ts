import { describe, expect, it } from "vitest";
import { causeOf } from "./exit-cause.ts";
import { FIRST_GUEST_UID, guestUid } from "./guest-uid.ts";
import { GuestFolder } from "./guest-folder.ts";
import { monitorArguments, monitorPaths } from "@gpve/domain/vm/argv/machine/monitors.ts";
import { handOverSockets } from "./hand-over-sockets.ts";

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
  it("is stable, high, its own, and not that of its helpers", () => {
    const uid = guestUid("abcdef", "100");
    expect(uid).toBe(guestUid("abcdef", "100"));
    expect(uid).not.toBe(guestUid("abcdef", "100-tpm"));
    expect(uid).not.toBe(guestUid("abcdef", "101"));
    expect(uid).not.toBe(guestUid("abcde0", "100"));
    expect(uid).toBeGreaterThanOrEqual(FIRST_GUEST_UID);
    expect(uid).toBeLessThan(2 ** 31);
    expect(guestUid("abcdef", "100", new Set([uid]))).not.toBe(uid);
  });
});

describe("QEMU's monitors", () => {
  it("are given as listening descriptors", () => {
    const folder = new GuestFolder("/run/a,b", "100");
    const { args, sockets } = handOverSockets(
      ["-nodefaults", ...monitorArguments(monitorPaths({ socketPath: (name) => folder.socket(name) }))],
      folder,
    );
    expect(args.slice(0, 5)).toEqual([
      "-nodefaults",
      "-chardev",
      "socket,id=qmp,fd=10,server=on,wait=off",
      "-mon",
      "chardev=qmp,mode=control",
    ]);
    expect(sockets.map(({ fd }) => fd)).toEqual([10, 11, 12]);
    expect(sockets[0]?.path).toBe("/run/a,b/100/qmp.sock");
  });

  it("are found in the arguments, as is every other socket the guest serves in its folder", () => {
    const folder = new GuestFolder("/run/g", "100");
    const given = [
      "-chardev",
      "socket,id=qmp,path=/run/g/100/qmp.sock,server=on,wait=off",
      "-chardev",
      "socket,id=serial0,path=/run/g/100/serial0.sock,server=on,wait=off",
      "-chardev",
      "socket,path=/run/g/100/qga.sock,server=on,wait=off,id=qga0",
      "-chardev",
      "socket,id=tpm,path=/run/g/100/io/swtpm",
      "-name",
      "socket,id=x,path=/run/g/100/x,server=on",
    ];
    const { args, sockets } = handOverSockets(given, folder);
    expect(sockets).toEqual([
      { path: "/run/g/100/qmp.sock", fd: 10 },
      { path: "/run/g/100/serial0.sock", fd: 481 },
      { path: "/run/g/100/qga.sock", fd: 482 },
    ]);
    expect(args[3]).toBe("socket,id=serial0,fd=481,server=on,wait=off");
    expect(args[5]).toBe("socket,fd=482,server=on,wait=off,id=qga0");
    expect(args.slice(6)).toEqual(given.slice(6));
  });
});
