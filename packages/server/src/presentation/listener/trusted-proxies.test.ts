import type { IncomingMessage } from "node:http";
import { describe, expect, test } from "vitest";
import { clientAddressOf, trustedProxies } from "./trusted-proxies.ts";

const from = (remoteAddress: string | undefined, forwarded?: string | string[]): IncomingMessage =>
  ({
    socket: { remoteAddress },
    headers: forwarded === undefined ? {} : { "x-forwarded-for": forwarded },
  }) as unknown as IncomingMessage;

describe("proxies that are trusted", () => {
  test("are addresses and networks of both families, on dual-stack sockets too", () => {
    const isProxy = trustedProxies(["192.0.2.5", "198.51.100.0/24", "2001:db8:1::/64", "2001:db8:2::1"]);
    for (const yes of [
      "192.0.2.5",
      "::ffff:192.0.2.5",
      "198.51.100.200",
      "2001:db8:1::ffff",
      "2001:db8:2::1",
    ])
      expect(isProxy(yes), yes).toBe(true);
    for (const no of ["192.0.2.6", "198.51.101.1", "2001:db8:1:1::1", "2001:db8:2::2", "::1", "", "unknown"])
      expect(isProxy(no), no).toBe(false);
  });

  test("are nobody when none is named", () => {
    expect(trustedProxies([])("127.0.0.1")).toBe(false);
  });

  test.each([
    "proxy.example",
    "192.0.2.5/33",
    "2001:db8::/129",
    "192.0.2.0/x",
    "192.0.2.0/-1",
    "192.0.2.0/",
    "/8",
    "",
  ])('cannot be "%s"', (name) => {
    expect(() => trustedProxies([name])).toThrow(`server.trustedProxies: "${name}" is no address or network`);
  });
});

describe("the address of a client", () => {
  const isProxy = trustedProxies(["192.0.2.0/24"]);

  test.each([
    ["its own, whatever it claims", "203.0.113.1", "10.9.9.9", "203.0.113.1"],
    ["its own without a proxy", "::ffff:203.0.113.1", undefined, "203.0.113.1"],
    ["what the proxy says", "192.0.2.5", "203.0.113.1", "203.0.113.1"],
    ["the last one, those before it may be made up", "192.0.2.5", "10.9.9.9, 203.0.113.1", "203.0.113.1"],
    ["beyond all proxies of ours", "192.0.2.5", "10.9.9.9, 203.0.113.1, 192.0.2.6", "203.0.113.1"],
    ["the proxy's where it says nothing", "192.0.2.5", undefined, "192.0.2.5"],
    ["the proxy's where it says nonsense", "192.0.2.5", "203.0.113.1, unknown", "192.0.2.5"],
    ["the farthest proxy's where all are ours", "192.0.2.5", "192.0.2.7, 192.0.2.6", "192.0.2.7"],
    ["IPv6", "192.0.2.5", "2001:db8::7", "2001:db8::7"],
    ["of several headers the last", "192.0.2.5", ["10.9.9.9", "203.0.113.1"], "203.0.113.1"],
    ["nothing where there is none", undefined, "203.0.113.1", ""],
  ])("is %s", (_name, remote, forwarded, expected) => {
    expect(clientAddressOf(from(remote, forwarded), isProxy)).toBe(expected);
  });
});
