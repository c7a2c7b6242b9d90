// Where pods reach the platform. The operator may sit on its host: the address by which he has it, or a name that only
// nodes of the platform know, leads pods to themselves or nowhere.
import { BlockList, isIP, isIPv6 } from "node:net";
import type { Cluster } from "../cluster/cluster.ts";
import type { Driver } from "../driver/driver.ts";

type Provider = Cluster["providers"][number];

export interface PodEndpoint {
  readonly url: string;
  /** Nobody but its own platform signed the certificate, as pods see it. */
  readonly isInsecure: boolean;
}

const PORT = 8006;
const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8, "ipv4");
LOOPBACK.addAddress("::1", "ipv6");

/** undefined: it is not known by which address. */
export async function podEndpoint(
  { endpoint, tls }: Provider,
  driver: Pick<Driver, "address">,
): Promise<PodEndpoint | undefined> {
  if (endpoint !== undefined && !isLoopback(new URL(endpoint).hostname)) {
    // Pods have neither the operator's file nor his fingerprint to judge by.
    const isInsecure = tls.fingerprint !== null || tls.caFile !== null || tls.insecure;
    return { url: endpoint.replace(/\/+$/, ""), isInsecure };
  }
  const address = await driver.address();
  if (address === undefined || isIP(address) === 0 || isLoopback(address)) return undefined;
  const port = endpoint === undefined ? PORT : new URL(endpoint).port || "443";
  return { url: `https://${isIPv6(address) ? `[${address}]` : address}:${port}`, isInsecure: true };
}

function isLoopback(host: string): boolean {
  const plain = host.replace(/^\[|\]$/g, "");
  return isIP(plain) === 0 ? plain === "localhost" : LOOPBACK.check(plain, isIPv6(plain) ? "ipv6" : "ipv4");
}
