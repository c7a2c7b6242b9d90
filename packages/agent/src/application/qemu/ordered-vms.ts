// VMs among all guests of a node.
import { given } from "@gpve/contracts/given.ts";
import { guestKinds } from "@gpve/domain/guest/guest-kinds.ts";
import { isTemplate } from "@gpve/domain/guest/guest-lock.ts";
import type { OrderedGuests } from "../guest/all-guests.ts";
import type { VmConfigs } from "./config/vm-configs.ts";
import { runningVm, type RunningPorts } from "./running-vm.ts";

export interface OrderedVmsPorts extends RunningPorts {
  readonly configs: VmConfigs;
}

export function orderedVms(host: OrderedVmsPorts): OrderedGuests {
  return {
    noun: guestKinds.qemu.noun,
    operations: {
      start: "qmstart",
      shutdown: "qmshutdown",
      stop: "qmstop",
      pause: "qmpause",
      move: "qmigrate",
    },
    isRunning: (vmid) => runningVm(host, vmid) !== undefined,
    list: () =>
      host.configs.list().flatMap((vmid) => {
        const config = host.configs.find(vmid);
        if (config === undefined || isTemplate(config)) return [];
        const { onboot, startup } = config.values;
        return [{ vmid, onboot: onboot === "1", ...given({ startup }) }];
      }),
  };
}
