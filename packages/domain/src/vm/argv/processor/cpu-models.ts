// CPU types a configuration may name, as data: who makes them, and what stands in for them without KVM.
import type { GuestArch } from "../host-facts.ts";

const INTEL = "GenuineIntel";
const AMD = "AuthenticAMD";
/** Takes its vendor from the host. */
const GENERIC = "default";

const INTEL_MODELS = [
  "486",
  "pentium",
  "pentium2",
  "pentium3",
  "coreduo",
  "core2duo",
  "Conroe",
  "Penryn",
  "Nehalem",
  "Nehalem-IBRS",
  "Westmere",
  "Westmere-IBRS",
  "SandyBridge",
  "SandyBridge-IBRS",
  "IvyBridge",
  "IvyBridge-IBRS",
  "Haswell",
  "Haswell-IBRS",
  "Haswell-noTSX",
  "Haswell-noTSX-IBRS",
  "Broadwell",
  "Broadwell-IBRS",
  "Broadwell-noTSX",
  "Broadwell-noTSX-IBRS",
  "Skylake-Client",
  "Skylake-Client-IBRS",
  "Skylake-Client-noTSX-IBRS",
  "Skylake-Client-v4",
  "Skylake-Server",
  "Skylake-Server-IBRS",
  "Skylake-Server-noTSX-IBRS",
  "Skylake-Server-v4",
  "Skylake-Server-v5",
  "Cascadelake-Server",
  "Cascadelake-Server-v2",
  "Cascadelake-Server-noTSX",
  "Cascadelake-Server-v4",
  "Cascadelake-Server-v5",
  "Cooperlake",
  "Cooperlake-v2",
  "KnightsMill",
  "Icelake-Client",
  "Icelake-Client-noTSX",
  "Icelake-Server",
  "Icelake-Server-noTSX",
  "Icelake-Server-v3",
  "Icelake-Server-v4",
  "Icelake-Server-v5",
  "Icelake-Server-v6",
  "Icelake-Server-v7",
  "SapphireRapids",
  "SapphireRapids-v2",
  "SapphireRapids-v3",
  "SapphireRapids-v4",
  "SapphireRapids-v5",
  "SapphireRapids-v6",
  "GraniteRapids",
  "GraniteRapids-v2",
  "GraniteRapids-v3",
  "GraniteRapids-v4",
  "GraniteRapids-v5",
  "SierraForest",
  "SierraForest-v2",
  "SierraForest-v3",
  "SierraForest-v4",
  "SierraForest-v5",
  "ClearwaterForest",
  "ClearwaterForest-v2",
  "ClearwaterForest-v3",
  "DiamondRapids",
];

const AMD_MODELS = [
  "athlon",
  "phenom",
  "Opteron_G1",
  "Opteron_G2",
  "Opteron_G3",
  "Opteron_G4",
  "Opteron_G5",
  "EPYC",
  "EPYC-IBPB",
  "EPYC-v3",
  "EPYC-v4",
  "EPYC-v5",
  "EPYC-Rome",
  "EPYC-Rome-v2",
  "EPYC-Rome-v3",
  "EPYC-Rome-v4",
  "EPYC-Rome-v5",
  "EPYC-Milan",
  "EPYC-Milan-v2",
  "EPYC-Milan-v3",
  "EPYC-Genoa",
  "EPYC-Genoa-v2",
  "EPYC-Turin",
];

const ARM_MODELS = [
  "a64fx",
  "cortex-a35",
  "cortex-a53",
  "cortex-a55",
  "cortex-a57",
  "cortex-a710",
  "cortex-a72",
  "cortex-a76",
  "cortex-a78ae",
  "neoverse-n1",
  "neoverse-n2",
  "neoverse-v1",
];

const GENERIC_MODELS = ["host", "kvm32", "kvm64", "qemu32", "qemu64", "max"];

/** x86-64 model of QEMU -> CPU vendor it reports, `default` for the host's. */
export const cpuModelVendors: ReadonlyMap<string, string> = new Map([
  ...INTEL_MODELS.map((model): [string, string] => [model, INTEL]),
  ...AMD_MODELS.map((model): [string, string] => [model, AMD]),
  ...GENERIC_MODELS.map((model): [string, string] => [model, GENERIC]),
]);

const armModelVendors: ReadonlyMap<string, string> = new Map([
  ...ARM_MODELS.map((model): [string, string] => [model, "ARM"]),
  ["host", GENERIC],
  ["max", GENERIC],
]);

/** An architecture's models with their vendors; the host's own CPU is only there for guests of its architecture. */
export function cpuModelsOf(arch: GuestArch, hostArch: GuestArch): ReadonlyMap<string, string> {
  const models = arch === "aarch64" ? armModelVendors : cpuModelVendors;
  return arch === hostArch ? models : new Map([...models].filter(([model]) => model !== "host"));
}

const V2 = ["+popcnt", "+pni", "+sse4.1", "+sse4.2", "+ssse3"];
const V3_EXTRA = ["+avx", "+avx2", "+bmi1", "+bmi2", "+f16c", "+fma", "+abm", "+movbe", "+xsave"];
const V4_EXTRA = ["+avx512f", "+avx512bw", "+avx512cd", "+avx512dq", "+avx512vl"];

/** The x86-64 levels, made of a plain model and flags. */
export const builtinCpuTypes: Readonly<Record<string, { readonly model: string; readonly flags: string }>> = {
  "x86-64-v2": { model: "qemu64", flags: V2.join(";") },
  "x86-64-v2-AES": { model: "qemu64", flags: ["+aes", ...V2].join(";") },
  "x86-64-v3": { model: "qemu64", flags: ["+aes", ...V2, ...V3_EXTRA].join(";") },
  "x86-64-v4": { model: "qemu64", flags: ["+aes", ...V2, ...V3_EXTRA, ...V4_EXTRA].join(";") },
};

/** Types QEMU dropped because no such CPU was ever made. */
export const replacedCpuModels: Readonly<Record<string, string>> = {
  "Icelake-Client": "Icelake-Server",
  "Icelake-Client-noTSX": "Icelake-Server-noTSX",
};

export const cpuModels32bit: ReadonlySet<string> = new Set([
  "486",
  "pentium",
  "pentium2",
  "pentium3",
  "coreduo",
  "athlon",
  "kvm32",
  "qemu32",
]);

/** Models that exist only under KVM -> what runs instead without it. All others run under both. */
export const tcgStandIns: Readonly<Record<string, string>> = { host: "max" };

/** The default model by architecture and accelerator. */
export const defaultCpuModels = {
  x86_64: { kvm: "kvm64", tcg: "qemu64" },
  aarch64: { kvm: "host", tcg: "max" },
} as const;
