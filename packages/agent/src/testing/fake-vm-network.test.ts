import { describe } from "vitest";
import { FakeVmNetwork } from "./fake-vm-network.ts";
import { vmNetworkConformance } from "./vm-network-conformance.ts";

describe("made-up network", () => {
  vmNetworkConformance(async () => {
    const network = new FakeVmNetwork();
    network.mtus.set("vmbr0", 1_400);
    network.missingBridges.add("vmbr4094");
    network.takenPorts.add(61_000);
    return {
      network,
      bridges: ["vmbr0", "vmbr1"],
      makeTap: async (name) => void network.taps.set(name, ""),
      masterOf: async (tap) => network.taps.get(tap),
      takePort: async () => 61_000,
      reopen: () => new FakeVmNetwork(),
      clean: async () => undefined,
    };
  });
});
