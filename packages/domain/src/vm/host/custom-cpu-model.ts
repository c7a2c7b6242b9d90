// CPU models of the cluster, which VMs name as `custom-<name>`.
import type { CustomCpuModel } from "../argv/host-facts.ts";

const PREFIX = "custom-";

export const cpuModelCollection = {
  prefix: "/gpve/cpu-models/",
  decode: (json: unknown) => json as CustomCpuModel,
};

/** The prefix may be given or left out. */
export function cpuModelName(cputype: string): string {
  return cputype.startsWith(PREFIX) ? cputype.slice(PREFIX.length) : cputype;
}

export function cpuTypeOf(name: string): string {
  return `${PREFIX}${name}`;
}
