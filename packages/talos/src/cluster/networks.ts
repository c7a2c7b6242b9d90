// Addresses and networks, as far as checks need them.
import { BlockList, isIP } from "node:net";

/** False for text that is no network. */
export function isNetwork(cidr: string): boolean {
  const [base = "", length = ""] = cidr.split("/");
  const family = isIP(base);
  return family !== 0 && /^\d+$/.test(length) && Number(length) <= (family === 4 ? 32 : 128);
}

export function contains(cidr: string, address: string): boolean {
  const [base = "", length = ""] = cidr.split("/");
  if (!isNetwork(cidr) || isIP(base) !== isIP(address)) return false;
  const block = new BlockList();
  const family = isIP(base) === 4 ? "ipv4" : "ipv6";
  block.addSubnet(base, Number(length), family);
  return block.check(address, family);
}

export function overlap(a: string, b: string): boolean {
  return contains(a, b.split("/")[0] ?? "") || contains(b, a.split("/")[0] ?? "");
}
