// Configurations of this node's VMs.
import { guestCollection, type Microvm } from "@gpve/domain/guest/guest-record.ts";
import { given } from "@gpve/contracts/given.ts";
import { managerCollection, resourceCollection, serviceState, sidOf } from "@gpve/domain/ha/collections.ts";
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

  /** What HA has to do with it, as PVE shows it. */
  haOf(vmid: number): { readonly managed: 0 | 1; readonly state?: string; readonly group?: string } {
    const sid = sidOf({ vmid, type: VM_TYPE });
    const resource = this.#records().collection(resourceCollection).get(sid)?.value;
    if (resource === undefined) return { managed: 0 };
    const records = this.#records();
    const state = serviceState(sid, {
      resources: records.collection(resourceCollection),
      manager: records.collection(managerCollection),
    });
    return { managed: 1, ...given({ state, group: resource.group }) };
  }

  /** Whether the cluster has such a CPU model; without `custom-`. */
  hasCpuModel(name: string): boolean {
    return this.#records().collection(cpuModelCollection).get(name) !== undefined;
  }
}
