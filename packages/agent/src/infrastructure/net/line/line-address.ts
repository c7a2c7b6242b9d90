// Which addresses a line may go to: those of the network that a guest's card shares with the node, and of nobody but a guest.
import { BlockList, isIP, SocketAddress } from "node:net";
import { AppError } from "@gpve/contracts/errors.ts";
import type { NetInterface } from "../interfaces.ts";

/** Never a guest's, or one that a guest could be believed to have. */
const NEVER: readonly (readonly [cidr: string, what: string])[] = [
  ["0.0.0.0/8", "no address of a machine"],
  ["127.0.0.0/8", "the node itself (loopback)"],
  ["169.254.0.0/16", "link-local, where services that tell machines about themselves are"],
  ["224.0.0.0/4", "multicast"],
  ["240.0.0.0/4", "reserved, or everybody (broadcast)"],
  ["::/127", "the node itself (loopback), or nobody"],
  ["fe80::/10", "link-local"],
  ["ff00::/8", "multicast"],
];

/** In the form the kernel writes it, or why it is none. Throws request.invalid. */
export function plainLineAddress(text: string): string {
  const family = isIP(text);
  const not = (why: string): AppError =>
    new AppError("request.invalid", `"${text}" is no address to open a line to: ${why}`, {
      errors: { address: why },
    });
  if (family === 0 || text.includes("%"))
    throw not("it must be an IPv4 or IPv6 address of the guest, as 10.0.0.10");
  const address = family === 4 ? text : new SocketAddress({ address: text, family: "ipv6" }).address;
  if (address.startsWith("::ffff:")) throw not("write an IPv4 address as one");
  const never = NEVER.find(([cidr]) => isWithin(address, cidr));
  if (never !== undefined) throw not(`it is ${never[1]}`);
  return address;
}

/** Whether a host of this network has that address: neither its first nor, with IPv4, its last one. */
export function isOnLink(address: string, cidr: string): boolean {
  if (isIP(address) !== isIP(cidr.split("/", 1)[0] ?? "") || !isWithin(address, cidr)) return false;
  const bits = Number(cidr.split("/")[1]);
  if (isIP(address) === 6) return true;
  const value = address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
  const size = 2 ** (32 - bits);
  return size > 2 && value % size !== 0 && value % size !== size - 1;
}

/** undefined = no interface of the node has it. */
export function ownInterface(address: string, interfaces: readonly NetInterface[]): string | undefined {
  return interfaces.find(({ addresses }) =>
    addresses.some((cidr) => plain(cidr.split("/", 1)[0] ?? "") === address),
  )?.name;
}

function isWithin(address: string, cidr: string): boolean {
  const [network = "", bits = ""] = cidr.split("/");
  const family = isIP(network);
  if (family === 0 || family !== isIP(address)) return false;
  const list = new BlockList();
  const name = family === 4 ? "ipv4" : "ipv6";
  list.addSubnet(network, Number(bits), name);
  return list.check(address, name);
}

function plain(address: string): string {
  return isIP(address) === 6 ? new SocketAddress({ address, family: "ipv6" }).address : address;
}
