// Whom an address stands for when peers are counted. IPv6 gives every household and every rented machine a /64 at least,
// so that an address of it costs nothing: all of a /64 are one.
import { isIPv6 } from "node:net";

const GROUPS = 8;
const NETWORK_GROUPS = 4;

/** An IPv4 address as it is, of an IPv6 address its network: "2001:db8:0:1::/64". */
export function clientNetwork(address: string): string {
  const plain = plainAddress(address);
  const [bare = ""] = plain.split("%", 1);
  if (!isIPv6(bare)) return plain;
  const [head = [], tail = []] = bare.split("::").map(groupsOf);
  const zeros = Array<string>(Math.max(0, GROUPS - head.length - tail.length)).fill("0");
  const network = [...head, ...zeros, ...tail].slice(0, NETWORK_GROUPS);
  return `${network.map((group) => Number.parseInt(group, 16).toString(16)).join(":")}::/64`;
}

/** IPv4 clients on a dual-stack socket look like IPv4 clients. */
export function plainAddress(address: string): string {
  return address.startsWith("::ffff:") && address.includes(".") && isIPv6(address)
    ? address.slice(7)
    : address;
}

/** An IPv4 address at the end takes the room of two groups. */
function groupsOf(text: string): string[] {
  return text === "" ? [] : text.split(":").flatMap((group) => (group.includes(".") ? ["0", "0"] : [group]));
}
