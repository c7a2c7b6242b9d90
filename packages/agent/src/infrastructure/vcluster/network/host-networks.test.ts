import type { NetworkInterfaceInfo } from "node:os";
import { expect, test } from "vitest";
import { hostNetworks, ownAddresses } from "./host-networks.ts";

const at = (cidr: string, internal = false): NetworkInterfaceInfo =>
  ({
    cidr,
    internal,
    address: cidr.split("/")[0],
    family: cidr.includes(":") ? "IPv6" : "IPv4",
  }) as NetworkInterfaceInfo;
const found = () => ({
  lo: [at("127.0.0.1/8", true)],
  eth0: [at("192.0.2.2/24"), at("fe80::1/64")],
  vcb7: [at("100.80.7.1/24")],
  vmbr0: [at("198.51.100.1/24")],
});

test("a node is in the networks of its cards, and not in those of its clusters", () => {
  expect(hostNetworks(found)).toEqual([
    { network: "192.0.2.2/24", what: "of eth0 of the node" },
    { network: "198.51.100.1/24", what: "of vmbr0 of the node" },
  ]);
});

test("clients may name a node by its addresses, and by none that only its clusters reach", () => {
  expect(ownAddresses(found)).toEqual(["127.0.0.1", "192.0.2.2", "198.51.100.1"]);
});
