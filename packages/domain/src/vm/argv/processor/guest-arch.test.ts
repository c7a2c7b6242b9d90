import { expect, it } from "vitest";
import { factsFor, guestArch, qemuBinaryFor } from "./guest-arch.ts";
import type { ForeignQemu } from "../host-facts.ts";
import { sampleHost } from "../testing/sample-host.ts";

const ARM: ForeignQemu = {
  binary: "/usr/bin/qemu-system-aarch64",
  version: "9.2.0",
  machineTypes: new Set(["virt-9.2"]),
  spice: false,
};

it("is the host's where nothing else is said, and for templates", () => {
  const host = sampleHost({ foreignQemus: { aarch64: ARM } });
  for (const values of [{}, { arch: "x86_64" }, { arch: "aarch64", template: "1" }]) {
    expect(guestArch(values, host)).toBe("x86_64");
    expect(factsFor(values, host)).toBe(host);
    expect(qemuBinaryFor(values, host, "/usr/bin/own")).toBe("/usr/bin/own");
  }
});

it("gives a guest of another kind the QEMU that can run it", () => {
  const host = sampleHost({
    foreignQemus: { aarch64: ARM },
    spice: { address: "127.0.0.1", tlsPort: 1 },
  });
  const values = { arch: "aarch64" };
  expect(qemuBinaryFor(values, host, "/usr/bin/own")).toBe(ARM.binary);
  const facts = factsFor(values, host);
  expect(facts).toMatchObject({ arch: "x86_64", qemuVersion: "9.2.0", machineTypes: ARM.machineTypes });
  expect(facts.spice).toBeUndefined();
  expect(factsFor(values, { ...host, foreignQemus: { aarch64: { ...ARM, spice: true } } }).spice).toEqual(
    host.spice,
  );
});

it("is refused with the name of the package where there is none", () => {
  expect(() => factsFor({ arch: "aarch64" }, sampleHost())).toThrow("apt-get install qemu-system-arm");
  expect(() => qemuBinaryFor({ arch: "x86_64" }, sampleHost({ arch: "aarch64" }), "")).toThrow(
    "apt-get install qemu-system-x86",
  );
});
