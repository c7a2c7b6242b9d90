import fc from "fast-check";
import { isIPv4 } from "node:net";
import { describe, expect, test } from "vitest";
import type { NetInterface } from "../interfaces.ts";
import { isOnLink, ownInterface, plainLineAddress } from "./line-address.ts";

describe("an address to open a line to", () => {
  test.each([
    ["10.0.0.10", "10.0.0.10"],
    ["FD00:0::1", "fd00::1"],
  ])("%s is taken as %s", (text, plain) => {
    expect(plainLineAddress(text)).toBe(plain);
  });

  test.each([
    "",
    "web",
    "10.0.0.1:80",
    "10.0.0.0/24",
    "0.0.0.0",
    "127.0.0.1",
    "127.9.9.9",
    "169.254.169.254",
    "224.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "fe80::1%vmbr0",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "010.0.0.1",
    "1",
  ])("%j is none", (text) => {
    expect(() => plainLineAddress(text)).toThrow("is no address to open a line to");
  });

  test("is never the node's own, however it is written", () => {
    const interfaces = [
      { name: "lo", addresses: ["127.0.0.1/8", "::1/128"] },
      { name: "vmbr0", addresses: ["10.0.0.1/24", "fd00:0::1/64"] },
    ] as unknown as NetInterface[];
    expect(ownInterface("10.0.0.1", interfaces)).toBe("vmbr0");
    expect(ownInterface(plainLineAddress("fd00:0:0::0:1"), interfaces)).toBe("vmbr0");
    expect(ownInterface("10.0.0.2", interfaces)).toBeUndefined();
  });

  test("is on the link when the network has a host of it", () => {
    expect(isOnLink("10.0.0.7", "10.0.0.1/24")).toBe(true);
    expect(isOnLink("10.0.0.0", "10.0.0.1/24")).toBe(false);
    expect(isOnLink("10.0.0.255", "10.0.0.1/24")).toBe(false);
    expect(isOnLink("10.0.1.7", "10.0.0.1/24")).toBe(false);
    expect(isOnLink("10.0.0.1", "10.0.0.1/32")).toBe(false);
    expect(isOnLink("fd00::7", "fd00::1/64")).toBe(true);
    expect(isOnLink("fd01::7", "fd00::1/64")).toBe(false);
    expect(isOnLink("10.0.0.7", "fd00::1/64")).toBe(false);
  });

  test("of IPv4 is one number or no address", () => {
    fc.assert(
      fc.property(fc.ipV4(), (text) => {
        let plain: string | undefined;
        try {
          plain = plainLineAddress(text);
        } catch {
          plain = undefined;
        }
        expect(plain === undefined || (plain === text && isIPv4(plain))).toBe(true);
      }),
    );
  });
});
