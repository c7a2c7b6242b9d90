// Which networks pods and Services of a cluster may have: not what means something else on every node, nor what its own node is
// in. Two clusters may have the same ones: they do not see each other.
import { type Cidr, cidrsOverlap, readCidr } from "./cidr.ts";
import { invalidSpec } from "./invalid-spec.ts";

export interface TakenNetwork {
  /** "192.0.2.0/24", or an address in it with the same prefix. */
  readonly network: string;
  /** As it is said in the refusal. */
  readonly what: string;
}

/** On every node. */
const RESERVED: readonly TakenNetwork[] = [
  { network: "0.0.0.0/8", what: "addresses of nobody" },
  { network: "100.64.0.0/10", what: "what nodes give to virtual clusters themselves" },
  { network: "127.0.0.0/8", what: "loopback addresses" },
  { network: "169.254.0.0/16", what: "link-local addresses" },
  { network: "224.0.0.0/3", what: "multicast and reserved addresses" },
];

interface Networks {
  readonly podCidr: string;
  readonly serviceCidr: string;
}

export function requireUsableNetworks(spec: Networks): void {
  requireFreeNetworks(spec, RESERVED);
}

/** Throws by name which of them overlaps what. */
export function requireFreeNetworks(spec: Networks, taken: readonly TakenNetwork[]): void {
  for (const [field, cidr] of [
    ["networking.podCIDR", spec.podCidr],
    ["networking.serviceCIDR", spec.serviceCidr],
  ] as const) {
    const wanted = readCidr(cidr);
    if (wanted === undefined) continue;
    const found = taken.find(({ network }) => {
      const other = networkOf(network);
      return other !== undefined && cidrsOverlap(wanted, other);
    });
    if (found !== undefined)
      throw invalidSpec(field, `${cidr} overlaps ${found.network}, ${found.what}: choose another`);
  }
}

function networkOf(text: string): Cidr | undefined {
  const [address = "", prefix = ""] = text.split("/");
  const host = readCidr(`${address}/32`);
  const bits = Number(prefix);
  if (host === undefined || !Number.isInteger(bits) || bits < 0 || bits > 32) return undefined;
  return { first: host.first - (host.first % 2 ** (32 - bits)), prefix: bits };
}
