import { expect, test } from "vitest";
import type { NodeFacts } from "@gpve/domain/node/runtime.ts";
import { qemuHostFacts } from "./qemu-host-facts.ts";
import { tapTraffic } from "./tap-traffic.ts";

const facts = {
  kernel: { sysname: "Linux", release: "6", version: "1", machine: "x86_64" },
  cpu: { vendor: "GenuineIntel", flags: "fpu aes", cpus: 4 },
  accelerator: "tcg",
  qemu: { version: "7.2.1", binary: "qemu", machines: [] },
} as unknown as NodeFacts;

test("joins what the node knows with what this host shows", () => {
  const host = qemuHostFacts("n1", facts);
  expect(host).toMatchObject({
    nodeName: "n1",
    arch: "x86_64",
    cpuVendor: "GenuineIntel",
    qemuVersion: "7.2.1",
    kvmUsable: false,
  });
  expect(host.cpuFlags.has("aes")).toBe(true);
  expect(host.numaNodes.length).toBeGreaterThan(0);
  expect(host.hugepageSizesMiB.every((size) => size >= 1)).toBe(true);
});

test("knows other machines, and a node that has no QEMU", () => {
  const { qemu: _qemu, ...without } = facts;
  const host = qemuHostFacts("n1", {
    ...without,
    kernel: { ...facts.kernel, machine: "aarch64" },
    accelerator: "kvm",
  });
  expect(host).toMatchObject({ arch: "aarch64", qemuVersion: "0", kvmUsable: true });
});

test("reads the kernel's counters of a device, and none of one that is gone", () => {
  expect(tapTraffic("lo")).toEqual({ received: expect.any(Number), sent: expect.any(Number) });
  expect(tapTraffic("gpve-no-such")).toBeUndefined();
});
