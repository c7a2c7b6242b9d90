// The configuration of a VM that is on its way here: its record is another node's still, and tells us nothing of it.
import type { Microvm } from "@gpve/domain/guest/guest-record.ts";
import type { VmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import { conflict } from "@gpve/domain/request/failures.ts";
import { VmConfigs } from "../config/vm-configs.ts";

type Deps = ConstructorParameters<typeof VmConfigs>[0];

export class OfferedConfigs extends VmConfigs {
  readonly #vmid: number;
  readonly #config: VmConfig;
  readonly #microvm: Microvm | undefined;

  constructor(deps: Deps, vmid: number, config: VmConfig, microvm: Microvm | undefined) {
    super(deps);
    this.#vmid = vmid;
    this.#config = config;
    this.#microvm = microvm;
  }

  override get(vmid: number): VmConfig {
    return vmid === this.#vmid ? this.#config : super.get(vmid);
  }

  override microvm(vmid: number): Microvm | undefined {
    return vmid === this.#vmid ? this.#microvm : super.microvm(vmid);
  }

  override change(vmid: number): Promise<VmConfig> {
    return Promise.reject(
      conflict(`VM ${vmid} is another node's until it has moved: it cannot be changed here`),
    );
  }
}
