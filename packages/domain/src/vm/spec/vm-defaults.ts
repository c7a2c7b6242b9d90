// What a VM gets that does not say: from the configuration of its node and of the cluster. A VM that is there already
// keeps what it got in this way, and gets nothing new.
import type { VmValues } from "../config/vm-config.ts";
import type { NamedFields, TypedVmSpec } from "./typed-spec.ts";

export interface NodeDefaults {
  readonly machine?: string;
  readonly cpu?: string;
  readonly bridge?: string;
}

export interface VmDefaults extends NodeDefaults {
  /** Storage of new disks. */
  readonly vmDisk?: string;
}

const X86 = "x86_64";
/** Models that mean this machine's own processor, which only KVM gives to a guest. */
const NEEDS_KVM = new Set(["host", "max"]);

/** Without those that guests of this node could not start with. */
export function usableDefaults(defaults: NodeDefaults, accelerator: string): NodeDefaults {
  const { cpu, ...others } = defaults;
  return cpu === undefined || !NEEDS_KVM.has(cpu) || accelerator === "kvm" ? defaults : others;
}

/** Keys that PVE's method leaves to its own defaults, for a new VM of this configuration. */
export function machineDefaults(values: VmValues, defaults: NodeDefaults): VmValues {
  return fitting(values, defaults, undefined);
}

/** `current` = the configuration of a VM that is there. */
export function withVmDefaults(values: VmValues, defaults: NodeDefaults, current?: VmValues): VmValues {
  const { bridge } = defaults;
  const cards =
    bridge === undefined
      ? []
      : Object.entries(values).flatMap(([key, text]) => {
          if (!/^net\d+$/.test(key) || /(?:^|,)bridge=/.test(text)) return [];
          const found = current?.[key];
          const had = found?.split(",").includes(`bridge=${bridge}`) ?? true;
          return had ? [[key, `${text},bridge=${bridge}`]] : [];
        });
  return {
    ...fitting(values, defaults, current),
    ...values,
    ...(Object.fromEntries(cards) as VmValues),
  };
}

function fitting(
  values: VmValues,
  { machine, cpu }: NodeDefaults,
  current: VmValues | undefined,
): Record<string, string> {
  // The names are those of one architecture.
  if ((values["arch"] ?? X86) !== X86) return {};
  const found: Record<string, string> = {};
  for (const [key, text] of Object.entries({ machine, cpu }))
    if (text !== undefined && (current === undefined || current[key] === text)) found[key] = text;
  return found;
}

/** New disks go where the configuration says; a disk that is there is meant where it lies. */
export function withDiskStorage(
  spec: TypedVmSpec,
  vmDisk: string | undefined,
  current: Pick<TypedVmSpec, "disks"> = {},
): TypedVmSpec {
  if (spec.disks === undefined) return spec;
  const lies = new Map((current.disks ?? []).map((disk) => [disk.name, disk["storage"]]));
  return {
    ...spec,
    disks: spec.disks.map((disk): NamedFields => {
      if (disk["storage"] !== undefined || disk["volume"] !== undefined) return disk;
      const storage = lies.get(disk.name) ?? vmDisk;
      return storage === undefined ? disk : { ...disk, storage };
    }),
  };
}
