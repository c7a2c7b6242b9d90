// The agent inside a VM, with the checks PVE makes before it speaks to it.
import { given } from "@gpve/contracts/given.ts";
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import type { AgentCommand } from "@gpve/domain/vm/running/agent-commands.ts";
import type { GuestAgent, GuestAgents } from "@gpve/domain/vm/running/guest-agent.ts";
import type { AgentOptions } from "@gpve/domain/vm/config/property-types.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { readVmProperty } from "@gpve/domain/vm/config/vm-properties.ts";
import { runningVm } from "../running-vm.ts";
import type { VmConfigs } from "../config/vm-configs.ts";
import type { QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";

export interface UseGuestAgentPorts {
  readonly configs: VmConfigs;
  readonly agents: GuestAgents;
  readonly processes: QemuProcesses;
}

const FREEZE_MS = 60 * 60_000;
const THAW_MS = 3 * 60_000;
const PRESENT_MS = 3_000;

export function agentOptions(values: VmValues): AgentOptions {
  const text = values["agent"];
  return text === undefined ? { enabled: false } : (readVmProperty("agent", text, "agent") as AgentOptions);
}

/** Throws PVE's text when there is nobody to speak to; whether it answers shows with the first command. */
export function requireGuestAgent(host: UseGuestAgentPorts, vmid: number): GuestAgent {
  if (!agentOptions(host.configs.get(vmid).values).enabled) throw agentAway("No QEMU guest agent configured");
  const process = runningVm(host, vmid);
  if (process === undefined) throw agentAway(`VM ${vmid} is not running`);
  return host.agents.of(process);
}

export async function runAgentCommand(
  host: UseGuestAgentPorts,
  vmid: number,
  command: AgentCommand,
  signal: AbortSignal,
): Promise<unknown> {
  const { name, timeoutMs, noReply } = command;
  return requireGuestAgent(host, vmid).execute(`guest-${name}`, undefined, {
    signal,
    ...given({ timeoutMs, noReply }),
  });
}

/** The VM's agent when it is configured and answers now. */
export async function answeringAgent(
  host: UseGuestAgentPorts,
  vmid: number,
  signal: AbortSignal,
): Promise<GuestAgent | undefined> {
  const process = runningVm(host, vmid);
  if (process === undefined || !agentOptions(host.configs.get(vmid).values).enabled) return undefined;
  const agent = host.agents.of(process);
  try {
    return (await agent.isRunning({ timeoutMs: PRESENT_MS, signal })) ? agent : undefined;
  } catch (err) {
    // It answered that it may not answer: it is there, but of no use.
    if (isAppError(err, "guest_agent.failed")) return undefined;
    throw err;
  }
}

/** Whether a snapshot or backup of this VM is to freeze the guest's file systems. */
export async function wantsFreeze(
  host: UseGuestAgentPorts,
  vmid: number,
  signal: AbortSignal,
): Promise<boolean> {
  if (agentOptions(host.configs.get(vmid).values)["freeze-fs"] === false) return false;
  return (await answeringAgent(host, vmid, signal)) !== undefined;
}

export async function freezeFilesystems(
  host: UseGuestAgentPorts,
  vmid: number,
  signal: AbortSignal,
): Promise<number> {
  const agent = requireGuestAgent(host, vmid);
  return Number(await agent.execute("guest-fsfreeze-freeze", undefined, { timeoutMs: FREEZE_MS, signal }));
}

/** Without a signal: what was frozen is thawed whatever happens. */
export async function thawFilesystems(host: UseGuestAgentPorts, vmid: number): Promise<number> {
  const agent = requireGuestAgent(host, vmid);
  return Number(await agent.execute("guest-fsfreeze-thaw", undefined, { timeoutMs: THAW_MS }));
}

/** Runs `work` while the guest's file systems stand still, where the guest can do that; it is thawed in any case. */
export async function withFrozenFilesystems<T>(
  host: UseGuestAgentPorts,
  vmid: number,
  ctx: {
    readonly signal: AbortSignal;
    readonly log: (line: string) => void;
    readonly warn: (line: string) => void;
  },
  work: () => Promise<T>,
): Promise<T> {
  if (!(await wantsFreeze(host, vmid, ctx.signal))) return work();
  ctx.log("issuing guest-agent 'fs-freeze' command");
  try {
    await freezeFilesystems(host, vmid, ctx.signal);
  } catch (err) {
    if (isAppError(err, "operation.cancelled")) throw err;
    ctx.warn(messageOf(err));
  }
  try {
    return await work();
  } finally {
    ctx.log("issuing guest-agent 'fs-thaw' command");
    await thawFilesystems(host, vmid).catch((err: unknown) => ctx.warn(messageOf(err)));
  }
}

function agentAway(message: string): AppError {
  return new AppError("guest_agent.unavailable", message, { pveStatus: 500 });
}
