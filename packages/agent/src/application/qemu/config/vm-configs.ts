// Configurations of this node's VMs.
import { guestCollection, type Microvm } from "@gpve/domain/guest/guest-record.ts";
import { parseVmConfig } from "@gpve/domain/vm/config/parse-config.ts";
import { writeVmConfig } from "@gpve/domain/vm/config/write-config.ts";
import { cpuModelCollection } from "@gpve/domain/vm/host/custom-cpu-model.ts";
import { unsaidSizes, vmVolumes } from "@gpve/domain/vm/vm-demand.ts";
import { VM_TYPE } from "@gpve/domain/vm/vm-type.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { GuestConfigs, type ConfigFormat, type GuestConfigsDeps } from "../../guest/guest-configs.ts";

const vmFormat: ConfigFormat = {
  parse: parseVmConfig,
  write: writeVmConfig,
  sizesToNote: (before, noted, after) => unsaidSizes(vmVolumes(before, noted), after),
};

export class VmConfigs extends GuestConfigs {
  readonly #records: () => Records;

  constructor(deps: Omit<GuestConfigsDeps, "type" | "format">) {
    super({ ...deps, type: VM_TYPE, format: vmFormat });
    this.#records = deps.records;
  }

  /** undefined = it has one of PVE's machines. */
  microvm(vmid: number): Microvm | undefined {
    return this.#records().collection(guestCollection).get(String(vmid))?.value.microvm;
  }

  /** Whether the cluster has such a CPU model; without `custom-`. */
  hasCpuModel(name: string): boolean {
    return this.#records().collection(cpuModelCollection).get(name) !== undefined;
  }
}
