import type { NodeFacts } from "@gpve/domain/node/runtime.ts";

/** /proc/cpuinfo, x86 and arm64. */
export function parseCpuInfo(text: string): Omit<NodeFacts["cpu"], "userHz"> {
  const blocks = text
    .split(/\n\s*\n/)
    .map(fieldsOf)
    .filter((fields) => fields.has("processor"));
  const first = blocks[0] ?? new Map<string, string>();
  const flags = first.get("flags") ?? first.get("Features") ?? "";
  const words = new Set(flags.split(" "));
  const sockets = new Set(blocks.map((fields) => fields.get("physical id") ?? "0"));
  const cores = new Set(
    blocks.map(
      (fields) => `${fields.get("physical id") ?? "0"}/${fields.get("core id") ?? fields.get("processor")}`,
    ),
  );
  return {
    model: first.get("model name") ?? first.get("CPU part") ?? "unknown",
    vendor: first.get("vendor_id") ?? first.get("CPU implementer") ?? "unknown",
    sockets: Math.max(1, sockets.size),
    cores: Math.max(1, cores.size),
    cpus: Math.max(1, blocks.length),
    mhz: first.get("cpu MHz") ?? "0.000",
    flags,
    hvm: words.has("vmx") || words.has("svm"),
  };
}

function fieldsOf(block: string): Map<string, string> {
  return new Map(
    block.split("\n").flatMap((line): [string, string][] => {
      const colon = line.indexOf(":");
      return colon === -1 ? [] : [[line.slice(0, colon).trim(), line.slice(colon + 1).trim()]];
    }),
  );
}
