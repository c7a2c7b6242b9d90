// What a VM's CPU type and flags ask of the processor that it runs on.
import { builtinCpuTypes } from "../argv/processor/cpu-models.ts";
import type { VmValues } from "./vm-config.ts";

export interface CpuNeeds {
  readonly cpuFlags?: readonly string[];
  readonly cpuModel?: string;
}

/** What is asked for by name; QEMU's own models promise what only it knows. */
export function cpuNeeds(values: VmValues): CpuNeeds {
  const text = values["cpu"];
  if (text === undefined) return {};
  const { cputype, flags } = readCpu(text);
  const listed = [builtinCpuTypes[cputype]?.flags ?? "", flags].flatMap((list) => list.split(";"));
  const cpuFlags = listed.flatMap((flag) => (flag.startsWith("+") ? [flag.slice(1)] : []));
  return cpuFlags.length === 0 ? {} : { cpuFlags: [...new Set(cpuFlags)], cpuModel: cputype };
}

/** It has every flag of the node that it was started on. */
export function hasHostCpu(values: VmValues): boolean {
  return readCpu(values["cpu"] ?? "").cputype === "host";
}

function readCpu(text: string): { readonly cputype: string; readonly flags: string } {
  const parts = text.split(",");
  const cputype = parts.flatMap((part) =>
    part.includes("=") ? (/^cputype=(.*)$/.exec(part)?.[1] ?? []) : part,
  );
  return { cputype: cputype[0] ?? "", flags: /(?:^|,)flags=([^,]*)/.exec(text)?.[1] ?? "" };
}
