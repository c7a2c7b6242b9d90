// Keys and monitor commands for a running VM.
import { refused } from "@gpve/domain/request/failures.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { parseKeys } from "@gpve/domain/vm/running/send-keys.ts";
import { requireMayCommand } from "../../../application/qemu/request/monitor-access.ts";
import { requireRootFor } from "../../../application/qemu/request/vm-tasks.ts";
import { requireRunning, runningVm } from "../../../application/qemu/running-vm.ts";
import type { VmConfigs } from "../../../application/qemu/config/vm-configs.ts";
import type { QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";

export interface VmMonitorHandlersPorts {
  readonly configs: VmConfigs;
  readonly processes: QemuProcesses;
}

const TIMEOUT_MS = 25_000;

export function createVmMonitorHandlers(host: VmMonitorHandlersPorts): PveHandlers {
  return {
    "PUT /nodes/{node}/qemu/{vmid}/sendkey": async ({ vmid, key, skiplock }, ctx) => {
      requireRootFor({ skiplock }, ctx);
      host.configs.get(vmid);
      await requireRunning(host, vmid).qmp.execute("send-key", { keys: parseKeys(key) }, ctx);
      return null;
    },

    "POST /nodes/{node}/qemu/{vmid}/dbus-vmstate": ({ vmid, action }) => {
      host.configs.get(vmid);
      if (runningVm(host, vmid) === undefined) throw refused(`VM ${vmid} must be running locally\n`);
      // Nothing was ever started, so there is nothing to stop.
      if (action === "stop") return null;
      throw new AppError(
        "feature.unsupported",
        `cannot start a dbus-vmstate helper for VM ${vmid}: it carries the host's connection tracking along with a live migration, and this node offers none (has-dbus-vmstate is false in capabilities/qemu/migration)`,
      );
    },

    "POST /nodes/{node}/qemu/{vmid}/monitor": async ({ vmid, command }, ctx) => {
      requireMayCommand(command, ctx);
      host.configs.get(vmid);
      try {
        const { qmp } = requireRunning(host, vmid);
        const args = { "command-line": command };
        return await qmp.execute("human-monitor-command", args, {
          signal: ctx.signal,
          timeoutMs: TIMEOUT_MS,
        });
      } catch (err) {
        return `ERROR: ${messageOf(err)}\n`;
      }
    },
  };
}
