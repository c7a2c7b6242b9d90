// Which accelerator runs a guest, as data for status and for choosing a node.
import { cpuModelVendors, builtinCpuTypes, tcgStandIns } from "./cpu-models.ts";

export interface AcceleratorRow {
  readonly cputype: string;
  readonly kvm: true;
  /** `true` runs as it is; a name runs as that model. */
  readonly tcg: true | string;
}

/** Every CPU type with what it is under KVM and under TCG. */
export const acceleratorTable: readonly AcceleratorRow[] = [
  ...cpuModelVendors.keys(),
  ...Object.keys(builtinCpuTypes),
].map((cputype) => ({ cputype, kvm: true, tcg: tcgStandIns[cputype] ?? true }));
