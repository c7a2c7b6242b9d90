// Starting a VM as a task.
import type { OperationDefinition, Step } from "@gpve/kit/operation/definition.ts";
import { freeVolume } from "../config/free-volumes.ts";
import { letGo } from "../snapshot/hold-guest.ts";
import type { StartArgs, VmStarter } from "./vm-starter.ts";
import { runningVm } from "../running-vm.ts";
import type { VmConfigs } from "../config/vm-configs.ts";
import type { QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";
import type { GuestStorages } from "../../guest/guest-storages.ts";

export interface StartOperationPorts {
  readonly starter: VmStarter;
  readonly configs: VmConfigs;
  readonly processes: QemuProcesses;
  readonly storages: GuestStorages;
}

interface StartState {
  /** Everything was checked and QEMU is about to be started: from here on an undo has something to end. */
  begun?: boolean;
  /** The RAM that a suspended guest is started from. */
  suspended?: string;
}

export function startVmOperation(host: StartOperationPorts): OperationDefinition<StartArgs, StartState> {
  return {
    type: "qmstart",
    steps: [startStep(host)],
  };
}

/** Starts a VM; a suspended one goes on where it was. */
export function startStep<Args extends StartArgs>(host: StartOperationPorts): Step<Args, StartState> {
  return {
    name: "start",
    run: async (ctx) =>
      host.starter.start(ctx.args, ctx, async (suspended) => {
        ctx.state.begun = true;
        if (suspended !== undefined) ctx.state.suspended = suspended;
        await ctx.checkpoint();
      }),
    undo: async ({ args, state, log }) => {
      const { vmid } = args;
      const { suspended } = state;
      if (suspended !== undefined && host.configs.get(vmid).values["vmstate"] !== suspended) {
        // It has left the saved RAM behind and may have written to its disks: there is no way back.
        const process = runningVm(host, vmid);
        if (process !== undefined) await letGo(process, true);
        await freeVolume(host, suspended, log);
        return;
      }
      // A VM that ran before this operation came is none of its business.
      if (state.begun === true) await runningVm(host, vmid)?.kill();
      if (runningVm(host, vmid) === undefined) await host.starter.stopHelpers(vmid);
    },
  };
}
