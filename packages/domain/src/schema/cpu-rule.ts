// What a VM may say about its CPU beyond the types of the keys.
import namedFormats from "@gpve/contracts/gen/named-formats.json" with { type: "json" };

// The x86-64 levels are models too, though QEMU does not list them.
const models: ReadonlySet<string> = new Set([
  ...namedFormats["pve-vm-cpu-conf"].builtinModels,
  "x86-64-v2",
  "x86-64-v2-AES",
  "x86-64-v3",
  "x86-64-v4",
]);

/** Flags a VM may set by itself; others need a CPU model of the cluster, which only administrators make. */
export const VM_CPU_FLAGS = [
  "aes",
  "amd-no-ssb",
  "amd-ssbd",
  "hv-evmcs",
  "hv-tlbflush",
  "ibpb",
  "md-clear",
  "nested-virt",
  "pcid",
  "pdpe1gb",
  "spec-ctrl",
  "ssbd",
  "virt-ssbd",
] as const;

const flag = `[+-](?:${VM_CPU_FLAGS.join("|")})`;
const FLAGS = new RegExp(`^${flag}(?:;${flag})*$`);

/** undefined when the CPU is one a VM may have. */
export function cpuProblem(value: Record<string, string | number | boolean>): string | undefined {
  const { cputype: model, flags } = value;
  if (typeof model !== "string") return "CPU is missing cputype\n";
  if (!model.startsWith("custom-") && !models.has(model))
    return `Built-in cputype '${model}' is not defined (missing 'custom-' prefix?)\n`;
  if (typeof flags === "string" && !FLAGS.test(flags))
    return `VM-specific CPU flags must be a subset of: ${VM_CPU_FLAGS.join(", ")}\n`;
  if (value["reported-model"] !== undefined)
    return "Property 'reported-model' not allowed in VM-specific CPU config.\n";
  return undefined;
}
