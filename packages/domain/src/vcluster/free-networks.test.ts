import { describe, expect, test } from "vitest";
import { requireFreeNetworks, requireUsableNetworks } from "./free-networks.ts";

describe("networks of a cluster", () => {
  const usual = { podCidr: "10.244.0.0/16", serviceCidr: "10.96.0.0/16" };

  test.each(["100.80.0.0/16", "100.0.0.0/8", "127.0.0.0/16", "169.254.0.0/16", "224.0.0.0/16", "0.0.0.0/8"])(
    "are not %s, which means something else on every node",
    (podCidr) => {
      expect(() => requireUsableNetworks({ ...usual, podCidr })).toThrow(
        `spec.networking.podCIDR: ${podCidr} overlaps`,
      );
    },
  );

  test("are none that their node is in", () => {
    const taken = (network: string) => () => requireFreeNetworks(usual, [{ network, what: "of eth0" }]);
    expect(taken("10.244.7.9/24")).toThrow(
      "spec.networking.podCIDR: 10.244.0.0/16 overlaps 10.244.7.9/24, of eth0: choose another",
    );
    expect(taken("10.1.2.3/8")).toThrow("podCIDR");
    expect(taken("10.96.255.255/32")).toThrow("spec.networking.serviceCIDR");
    for (const network of ["10.245.0.1/16", "192.0.2.2/24", "fe80::1/64", "nonsense"])
      expect(taken(network)).not.toThrow();
    expect(() => requireUsableNetworks(usual)).not.toThrow();
  });
});
