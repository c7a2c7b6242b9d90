import fc from "fast-check";
import { expect, test } from "vitest";
import { machineMac, machineUuid } from "./identity.ts";

test("a UUID is RFC 9562's of the name", () => {
  // python3 -c 'import uuid; print(uuid.uuid5(uuid.NAMESPACE_DNS, "www.example.com"))'
  expect(machineUuid("example.com", "www")).toBe("2ed6657d-e927-568b-95e1-2665a8aea6a2");
});

test("identities have their form, stay the same and differ from machine to machine", () => {
  const name = fc.stringMatching(/^[a-z][a-z0-9-]{0,20}$/);
  fc.assert(
    fc.property(name, name, fc.nat(7), (cluster, machine, card) => {
      expect(machineUuid(cluster, machine)).toMatch(
        /^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
      );
      expect(machineMac(cluster, machine, card)).toMatch(/^BC:24:11(:[0-9A-F]{2}){3}$/);
      expect(machineMac(cluster, machine, card)).toBe(machineMac(cluster, machine, card));
      expect(machineUuid(cluster, `${machine}x`)).not.toBe(machineUuid(cluster, machine));
    }),
  );
  const macs = Array.from({ length: 200 }, (_, index) => machineMac("prod", `prod-worker-${index}`, 0));
  expect(new Set(macs).size).toBe(macs.length);
  // Parts that run together would make two machines one.
  expect(machineMac("a", "bc", 0)).not.toBe(machineMac("ab", "c", 0));
});
