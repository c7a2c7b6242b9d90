// Requests for keys and monitor commands of a running VM: who may give its QEMU which.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { PveParams } from "@gpve/contracts/gen/pve-params.ts";
import { isRoot, type RequestContext } from "@gpve/domain/request/context.ts";
import { refused } from "@gpve/domain/request/failures.ts";
import type { QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";
import { monitorRight } from "@gpve/domain/vm/running/monitor-commands.ts";
import { parseKeys } from "@gpve/domain/vm/running/send-keys.ts";
import type { VmConfigs } from "../config/vm-configs.ts";
import { requireRunningVm, runningVm } from "../running-vm.ts";
import { requireRootFor } from "./vm-tasks.ts";

export interface MonitorRequestPorts {
  readonly configs: VmConfigs;
  readonly processes: QemuProcesses;
}

const TIMEOUT_MS = 25_000;

export async function sendKeys(
  host: MonitorRequestPorts,
  { vmid, key, skiplock }: PveParams["PUT /nodes/{node}/qemu/{vmid}/sendkey"],
  ctx: RequestContext,
): Promise<null> {
  requireRootFor({ skiplock }, ctx);
  host.configs.get(vmid);
  await requireRunningVm(host, vmid).qmp.execute("send-key", { keys: parseKeys(key) }, ctx);
  return null;
}

/** What QEMU says, also where it says no. */
export async function giveCommand(
  host: MonitorRequestPorts,
  { vmid, command }: PveParams["POST /nodes/{node}/qemu/{vmid}/monitor"],
  ctx: RequestContext,
): Promise<unknown> {
  requireMayCommand(command, ctx);
  host.configs.get(vmid);
  try {
    const { qmp } = requireRunningVm(host, vmid);
    const args = { "command-line": command };
    return await qmp.execute("human-monitor-command", args, { signal: ctx.signal, timeoutMs: TIMEOUT_MS });
  } catch (err) {
    return `ERROR: ${messageOf(err)}\n`;
  }
}

export function switchDbusState(
  host: MonitorRequestPorts,
  { vmid, action }: PveParams["POST /nodes/{node}/qemu/{vmid}/dbus-vmstate"],
): null {
  host.configs.get(vmid);
  if (runningVm(host, vmid) === undefined) throw refused(`VM ${vmid} must be running locally\n`);
  // Nothing was ever started, so there is nothing to stop.
  if (action === "stop") return null;
  throw new AppError(
    "feature.unsupported",
    `cannot start a dbus-vmstate helper for VM ${vmid}: it carries the host's connection tracking along with a live migration, and this node offers none (has-dbus-vmstate is false in capabilities/qemu/migration)`,
  );
}

function requireMayCommand(command: string, ctx: RequestContext): void {
  const name = /^\s*(\S+)/.exec(command)?.[1];
  if (name === undefined)
    throw denied(command === "" ? "no command specified" : `unexpected command '${command}'`);
  const right = monitorRight(name);
  if (right === "everybody") return;
  if (right === "Sys.Modify") return ctx.access.require("/", ["Sys.Modify"]);
  if (ctx.actor !== undefined && isRoot(ctx.actor)) return;
  throw denied(
    right === "root"
      ? `root-only command '${name}'`
      : `command '${name}' non-existent or not assigned a required permission yet, limiting to root user`,
  );
}

function denied(message: string): AppError {
  return new AppError("access.denied", message, { pveStatus: 500 });
}
