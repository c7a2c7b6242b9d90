import fc from "fast-check";
import { expect, test } from "vitest";
import { clientNetwork, plainAddress } from "./client-network.ts";

test("an IPv4 address stands for itself, however it is written", () => {
  expect(clientNetwork("192.0.2.7")).toBe("192.0.2.7");
  expect(clientNetwork("::ffff:192.0.2.7")).toBe("192.0.2.7");
  expect(plainAddress("::ffff:192.0.2.7")).toBe("192.0.2.7");
  expect(plainAddress("2001:db8::7")).toBe("2001:db8::7");
  expect(clientNetwork("")).toBe("");
});

test.each([
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
  ["2001:0DB8:0001:0002::1", "2001:db8:1:2::/64"],
  ["2001:db8::1", "2001:db8:0:0::/64"],
  ["::1", "0:0:0:0::/64"],
  ["::", "0:0:0:0::/64"],
  ["::2:3:4:5:6:7:8", "0:2:3:4::/64"],
  ["1:2:3::", "1:2:3:0::/64"],
  ["64:ff9b::192.0.2.7", "64:ff9b:0:0::/64"],
  ["fe80::1%eth0", "fe80:0:0:0::/64"],
])("of %s the network is %s", (address, network) => {
  expect(clientNetwork(address)).toBe(network);
});

test("whatever the last 64 bits are, the network is the same; one bit before them, and it is another", () => {
  const group = fc.integer({ min: 0, max: 0xffff });
  const four = fc.tuple(group, group, group, group);
  const written = (groups: readonly number[]) => groups.map((each) => each.toString(16)).join(":");
  fc.assert(
    fc.property(four, four, four, fc.integer({ min: 0, max: 63 }), (network, one, two, bit) => {
      const other = network.map((each, at) => (at === bit >> 4 ? each ^ (1 << (bit & 15)) : each));
      const found = clientNetwork(written([...network, ...one]));
      expect(clientNetwork(written([...network, ...two]))).toBe(found);
      expect(clientNetwork(written([...other, ...one]))).not.toBe(found);
    }),
  );
});
