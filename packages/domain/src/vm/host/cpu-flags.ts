// Which CPU flags may be set, and on which nodes they work.
import { given } from "@gpve/contracts/given.ts";
import type { NodeFacts } from "../../node/runtime.ts";

export interface CpuFlagRow {
  readonly name: string;
  readonly description?: string;
  readonly "supported-on": readonly string[];
}

const NESTED = "nested-virt";
const DESCRIPTIONS: Readonly<Record<string, string>> = {
  [NESTED]:
    "Controls nested virtualization, namely 'svm' for AMD CPUs and 'vmx' for Intel CPUs. Live migration still only works if it's the same flag on both sides. Use a CPU model similar to the host, with the same vendor, not x86-64-vX!",
  "md-clear": "Required to let the guest OS know if MDS is mitigated correctly.",
  pcid: "Meltdown fix cost reduction on Westmere, Sandy-, and IvyBridge Intel CPUs.",
  "spec-ctrl": "Allows improved Spectre mitigation with Intel CPUs.",
  ssbd: "Protection for 'Speculative Store Bypass' for Intel models.",
  ibpb: "Allows improved Spectre mitigation with AMD CPUs.",
  "virt-ssbd": "Basis for 'Speculative Store Bypass' protection for AMD models.",
  "amd-ssbd": "Improves Spectre mitigation performance with AMD CPUs, best used with 'virt-ssbd'.",
  "amd-no-ssb": "Notifies guest OS that host is not vulnerable for Spectre on AMD CPUs.",
  pdpe1gb: "Allow guest OS to use 1GB size pages, if host HW supports it.",
  "hv-tlbflush":
    "Improve performance in overcommitted Windows guests. May lead to guest bluescreens on old CPUs.",
  "hv-evmcs": "Improve performance for nested virtualization. Only supported on Intel CPUs.",
  aes: "Activate AES instruction set for HW acceleration.",
};
const RAW_NESTED =
  "Raw nested-virtualization flag. Prefer the 'nested-virt' shorthand for portable VM configs - it resolves to svm or vmx based on the host CPU.";

/** Flags a VM may set by itself, or all that any node's QEMU understands; the ones that work nowhere come last. */
export function cpuFlagRows(
  nodes: readonly { readonly node: string; readonly facts: NodeFacts | undefined }[],
  accel: "kvm" | "tcg",
  scope: "vm" | "all",
): CpuFlagRow[] {
  const on = new Map<string, Set<string>>();
  const names = scope === "vm" ? Object.keys(DESCRIPTIONS) : [NESTED];
  for (const name of names) on.set(name, new Set());
  for (const { node, facts } of nodes) {
    const flags = facts?.qemu?.cpuFlags;
    if (flags === undefined) continue;
    if (scope === "all") for (const name of flags.understood) if (!on.has(name)) on.set(name, new Set());
    // A KVM that runs no guests supports nothing.
    const works = accel === "kvm" && facts?.accelerator !== "kvm" ? [] : flags[accel];
    for (const flag of works) {
      on.get(flag)?.add(node);
      if (flag === "svm" || flag === "vmx") on.get(NESTED)?.add(node);
    }
  }
  return [...on].map(([name, where]) => row(name, where, scope)).toSorted(inOrder);
}

function row(name: string, nodes: ReadonlySet<string>, scope: "vm" | "all"): CpuFlagRow {
  const raw = scope === "all" && (name === "svm" || name === "vmx") ? RAW_NESTED : undefined;
  const description = DESCRIPTIONS[name] ?? raw;
  return {
    name,
    ...given({ description }),
    "supported-on": [...nodes].sort(),
  };
}

function inOrder(a: CpuFlagRow, b: CpuFlagRow): number {
  const rank = (each: CpuFlagRow): number =>
    each.name === NESTED ? 0 : each["supported-on"].length > 0 ? 1 : 2;
  return rank(a) - rank(b) || (a.name < b.name ? -1 : 1);
}
