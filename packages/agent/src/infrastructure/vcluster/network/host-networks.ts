import { networkInterfaces } from "node:os";
import type { TakenNetwork } from "@gpve/domain/vcluster/free-networks.ts";

/** Cards and bridges of clusters themselves. */
const OF_CLUSTERS = /^vc[bpwx]\d/;

/** The networks that this node is in, by the addresses that it has. */
export function hostNetworks(found = networkInterfaces): readonly TakenNetwork[] {
  return Object.entries(found())
    .filter(([name]) => !OF_CLUSTERS.test(name))
    .flatMap(([name, addresses = []]) =>
      addresses
        .filter(({ family, internal }) => family === "IPv4" && !internal)
        .flatMap(({ cidr }) => (cidr === null ? [] : [{ network: cidr, what: `of ${name} of the node` }])),
    );
}

/** Of the networks between a node and its clusters: 100.80.0.0/12. */
const TO_CLUSTERS = /^100\.(?:8\d|9[0-5])\./;

/** By which clients may name this node. */
export function ownAddresses(found = networkInterfaces): readonly string[] {
  return Object.values(found())
    .flatMap((addresses) => addresses ?? [])
    .filter(({ family, address }) => family === "IPv4" && !TO_CLUSTERS.test(address))
    .map(({ address }) => address);
}
