// What a VM leaves behind when its QEMU has ended.
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import type { VmNetwork } from "@gpve/domain/vm/config/vm-network.ts";
import type { EndWork, ProcessEndWork } from "../../guest/guest-end.ts";
import { runHook, type HookscriptPorts } from "../../guest/hookscript.ts";
import type { VmConfigs } from "../config/vm-configs.ts";
import { removeMadeDevices, type TakeDevicesPorts } from "../start/take-devices.ts";
import type { VmStarter } from "../start/vm-starter.ts";

export interface AfterEndPorts extends TakeDevicesPorts, HookscriptPorts {
  readonly configs: VmConfigs;
  readonly network: VmNetwork;
  readonly starter: VmStarter;
}

export function afterVmEnd(host: AfterEndPorts): readonly EndWork[] {
  const valuesOf = (vmid: number): VmValues => host.configs.find(vmid)?.values ?? {};
  return [
    { what: "ending a guest's helpers", run: (vmid) => host.starter.stopHelpers(vmid) },
    {
      what: "removing what a guest was lent",
      run: (vmid) => removeMadeDevices(host, vmid, valuesOf(vmid)),
    },
    {
      what: "hook script",
      run: (vmid, say) => runHook(host, vmid, valuesOf(vmid), "post-stop", { log: say }),
    },
    { what: "clearing up after network cards", run: () => host.network.sweep() },
    { what: "removing filters of network cards", run: (vmid) => host.network.unfilter(vmid) },
  ];
}

/** A user-mode network is a helper, and has a wall by its own id. */
export function afterProcessEnd(host: { readonly network: VmNetwork }): readonly ProcessEndWork[] {
  return [{ what: "removing the wall of a user-mode network", run: (id) => host.network.unwall(id) }];
}
