// Whose word on where a request comes from counts: X-Forwarded-For is honoured only from proxies that were named.
import type { IncomingMessage } from "node:http";
import { BlockList, isIP, isIPv6 } from "node:net";
import { AppError } from "@gpve/contracts/errors.ts";
import { plainAddress } from "@gpve/kit/net/client-network.ts";

export type IsProxy = (address: string) => boolean;

/** Addresses and networks, "192.0.2.10", "2001:db8::/64". */
export function trustedProxies(names: readonly string[]): IsProxy {
  if (names.length === 0) return () => false;
  const list = new BlockList();
  for (const name of names) {
    const [address = "", bits] = name.split("/", 2);
    const family = isIP(address) === 6 ? "ipv6" : "ipv4";
    const most = family === "ipv6" ? 128 : 32;
    const prefix = bits === undefined ? most : Number(/^\d+$/.test(bits) ? bits : Number.NaN);
    if (isIP(address) === 0 || Number.isNaN(prefix) || prefix > most) {
      throw new AppError("config.invalid", `server.trustedProxies: "${name}" is no address or network`);
    }
    list.addSubnet(address, prefix, family);
  }
  return (address) => {
    const plain = plainAddress(address);
    return isIP(plain) !== 0 && list.check(plain, isIPv6(plain) ? "ipv6" : "ipv4");
  };
}

/** The nearest address that is no proxy of ours: what is further away could have been made up by whoever is there. */
export function clientAddressOf(req: IncomingMessage, isProxy: IsProxy): string {
  let address = plainAddress(req.socket.remoteAddress ?? "");
  if (!isProxy(address)) return address;
  const header = req.headers["x-forwarded-for"];
  const told = (Array.isArray(header) ? header.join(",") : (header ?? ""))
    .split(",")
    .map((part) => part.trim());
  while (isProxy(address)) {
    const next = plainAddress(told.pop() ?? "");
    if (isIP(next) === 0) break;
    address = next;
  }
  return address;
}
