// Keys and monitor commands for a running VM.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { isRoot, type RequestContext } from "@gpve/domain/request/context.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { parseKeys } from "@gpve/domain/vm/send-keys.ts";
import { requireRunning, runningVm, type VmHost } from "../../application/vm/vm-host.ts";

export function createVmMonitorHandlers(host: VmHost): PveHandlers {
  return {
    "PUT /nodes/{node}/qemu/{vmid}/sendkey": async ({ vmid, key, skiplock }, ctx) => {
      if (skiplock === true && !(ctx.actor !== undefined && isRoot(ctx.actor))) {
        throw new AppError("request.invalid", "Parameter verification failed.", {
          errors: { skiplock: "Only root may use this option." },
        });
      }
      host.configs.get(vmid);
      await requireRunning(host, vmid).qmp.execute("send-key", { keys: parseKeys(key) }, ctx);
      return null;
    },

    "POST /nodes/{node}/qemu/{vmid}/dbus-vmstate": ({ vmid, action }) => {
      host.configs.get(vmid);
      if (runningVm(host, vmid) === undefined)
        throw new AppError("request.invalid", `VM ${vmid} must be running locally\n`, { pveStatus: 500 });
      // Nothing was ever started, so there is nothing to stop.
      if (action === "stop") return null;
      throw new AppError(
        "feature.unsupported",
        `cannot start a dbus-vmstate helper for VM ${vmid}: it carries the host's connection tracking along with a live migration, and this node offers none (has-dbus-vmstate is 0 in capabilities/qemu/migration)`,
      );
    },

    "POST /nodes/{node}/qemu/{vmid}/monitor": async ({ vmid, command }, ctx) => {
      host.configs.get(vmid);
      requireMayChange(command, ctx);
      const process = requireRunning(host, vmid);
      try {
        return await process.qmp.execute("human-monitor-command", { "command-line": command }, ctx);
      } catch (err) {
        return `ERROR: ${messageOf(err)}\n`;
      }
    },
  };
}

/** Looking needs what the method asks for; everything else changes a guest under its configuration's feet. */
function requireMayChange(command: string, ctx: RequestContext): void {
  if (/^\s*info(?:\s|$)/.test(command) || /^\s*help\s*$/.test(command)) return;
  ctx.access.require("/", ["Sys.Modify"]);
}
