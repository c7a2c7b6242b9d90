// Addresses and networks, as far as checks and plans need them.
import { BlockList, isIP } from "node:net";

/** False for text that is no network. */
export function isNetwork(cidr: string): boolean {
  const [base = "", length = ""] = cidr.split("/");
  const family = isIP(base);
  return family !== 0 && /^\d+$/.test(length) && Number(length) <= (family === 4 ? 32 : 128);
}

/** The network that an address with a length lies in: 10.0.0.0/24 for 10.0.0.7/24. */
export function networkOf(cidr: string): string {
  const [base = ""] = cidr.split("/");
  const isV4 = isIP(base) === 4;
  const hostBits = BigInt((isV4 ? 32 : 128) - prefixLength(cidr));
  const start = (numberOf(base) >> hostBits) << hostBits;
  return `${isV4 ? textOfV4(start) : textOfV6(start)}/${prefixLength(cidr)}`;
}

/** What an address of IPv4 is when no machine can have it. */
export function unusableAs(cidr: string, address: string): string | undefined {
  if (isIP(address) !== 4 || !contains(cidr, address) || prefixLength(cidr) > 30) return undefined;
  const hosts = (1n << BigInt(32 - prefixLength(cidr))) - 1n;
  const place = numberOf(address) & hosts;
  if (place === 0n) return "the address of the network itself";
  return place === hosts ? "the network's broadcast address" : undefined;
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

/** The number behind "/". */
export function prefixLength(cidr: string): number {
  return Number(cidr.split("/")[1]);
}

/** The address at this distance from the network's first; undefined when a machine cannot have it. */
export function addressAt(cidr: string, offset: number): string | undefined {
  const [base = ""] = cidr.split("/");
  const isV4 = isIP(base) === 4;
  const hostBits = BigInt((isV4 ? 32 : 128) - prefixLength(cidr));
  const size = 1n << hostBits;
  // The last address of an IPv4 network reaches all of it.
  const usable = isV4 && hostBits > 1n ? size - 1n : size;
  if (offset < 1 || BigInt(offset) >= usable) return undefined;
  const start = (numberOf(base) >> hostBits) << hostBits;
  return isV4 ? textOfV4(start + BigInt(offset)) : textOfV6(start + BigInt(offset));
}

/** "10.0.0.100-10.0.0.150", its ends included; false for what is no range. */
export function isInRange(range: string, address: string): boolean {
  const [first = "", last = ""] = range.split("-");
  const family = isIP(address);
  if (family === 0 || isIP(first) !== family || isIP(last) !== family) return false;
  return numberOf(first) <= numberOf(address) && numberOf(address) <= numberOf(last);
}

/** One spelling of an address, to compare by. */
export function canonicalAddress(address: string): string {
  return isIP(address) === 6 ? textOfV6(numberOf(address)) : address;
}

function numberOf(address: string): bigint {
  if (isIP(address) === 4) {
    return address.split(".").reduce((sum, part) => sum * 256n + BigInt(part), 0n);
  }
  // The URL parser writes IPv6 in its shortest form, without an IPv4 tail.
  const short = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const [head = "", tail] = short.split("::");
  const groups = (text: string): string[] => (text === "" ? [] : text.split(":"));
  const before = groups(head);
  const after = tail === undefined ? [] : groups(tail);
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => "0");
  return [...before, ...zeros, ...after].reduce(
    (sum, group) => sum * 65_536n + BigInt(Number.parseInt(group, 16)),
    0n,
  );
}

function textOfV4(value: bigint): string {
  return [24n, 16n, 8n, 0n].map((shift) => String((value >> shift) & 255n)).join(".");
}

function textOfV6(value: bigint): string {
  const groups = Array.from({ length: 8 }, (_, at) => (value >> BigInt(112 - 16 * at)) & 65_535n);
  return new URL(`http://[${groups.map((group) => group.toString(16)).join(":")}]`).hostname.slice(1, -1);
}
