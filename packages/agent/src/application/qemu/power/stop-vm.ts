// Ending, resetting and pausing a VM.
import { conflict } from "@gpve/domain/request/failures.ts";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { checkLock, hasLock, isTemplate } from "@gpve/domain/guest/guest-lock.ts";
import { readStartup } from "@gpve/domain/guest/startup-order.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import { settleStopped } from "../config/apply-pending.ts";
import { continueGuest } from "./continue-guest.ts";
import { runHook, type HookscriptPorts } from "../../guest/hookscript.ts";
import { startStep, type StartOperationPorts } from "../start/start-operation.ts";
import { agentOptions, answeringAgent, type UseGuestAgentPorts } from "../agent/use-guest-agent.ts";
import { requireOnNode, requireRunningVm, runningVm } from "../running-vm.ts";
import type { Clock } from "@gpve/kit/clock.ts";

export interface StopVmPorts extends HookscriptPorts, StartOperationPorts, UseGuestAgentPorts {
  readonly clock: Clock;
}

export interface StopArgs {
  readonly vmid: number;
  readonly skiplock?: boolean;
}

export interface ShutdownArgs extends StopArgs {
  /** Absent: what the VM's `startup` says, or a minute. */
  readonly timeoutSeconds?: number;
  readonly forceStop: boolean;
}

const SHUTDOWN_SECONDS = 60;
const AGENT_AGAIN_MS = 1_000;

/** A copy for another node is sent again later. */
const GIVES_WAY = ["qmshutdown", "qmreboot", "replicate"] as const;

export function stopVmOperation(host: StopVmPorts): OperationDefinition<StopArgs> {
  return {
    type: "qmstop",
    overtakes: GIVES_WAY,
    onCrash: "resume",
    steps: [
      {
        name: "stop",
        run: async ({ args, signal, log }) => {
          requireOnNode(host, args.vmid);
          const process = runningVm(host, args.vmid);
          if (process === undefined) return;
          requireUnlocked(host, args);
          const { values } = host.configs.get(args.vmid);
          await runHook(host, args.vmid, values, "pre-stop", { log, signal });
          await process.stop({ signal });
          await settleStopped(host, args.vmid, log);
        },
      },
    ],
  };
}

export function resetVmOperation(host: StopVmPorts): OperationDefinition<StopArgs> {
  return {
    type: "qmreset",
    overtakes: GIVES_WAY,
    steps: [
      {
        name: "reset",
        run: async ({ args, signal }) => {
          requireUnlocked(host, args);
          await requireRunningVm(host, args.vmid).qmp.execute("system_reset", undefined, { signal });
        },
      },
    ],
  };
}

export function shutdownVmOperation(host: StopVmPorts): OperationDefinition<ShutdownArgs> {
  return {
    type: "qmshutdown",
    overtakes: ["replicate"],
    onCrash: "resume",
    steps: [
      {
        name: "shutdown",
        run: async ({ args, signal, log }) => {
          // A VM that went while this waited is told, not passed over.
          requireOnNode(host, args.vmid);
          const process = runningVm(host, args.vmid);
          if (process === undefined) return;
          requireUnlocked(host, args);
          await shutDown(host, process, args, { signal, log });
        },
      },
    ],
  };
}

/** A reboot through the API takes pending changes into force: it is a shutdown and a start. It never kills. */
export function rebootVmOperation(host: StopVmPorts): OperationDefinition<ShutdownArgs> {
  return {
    type: "qmreboot",
    onCrash: "resume",
    steps: [
      {
        name: "shutdown",
        run: async ({ args, signal, log }) => {
          const process = runningVm(host, args.vmid);
          if (process !== undefined)
            await shutDown(host, process, { ...args, forceStop: false }, { signal, log });
        },
      },
      {
        name: "start",
        run: async (ctx) => {
          if (runningVm(host, ctx.args.vmid) === undefined) await host.starter.start(ctx.args, ctx);
        },
      },
    ],
  };
}

export function pauseVmOperation(host: StopVmPorts): OperationDefinition<StopArgs> {
  return {
    type: "qmpause",
    steps: [
      {
        name: "pause",
        run: async ({ args, signal }) => {
          requireUnlocked(host, args);
          await requireRunningVm(host, args.vmid).qmp.execute("stop", undefined, { signal });
        },
      },
    ],
  };
}

export function resumeVmOperation(host: StopVmPorts): OperationDefinition<StopArgs> {
  const start = startStep<StopArgs>(host);
  return {
    type: "qmresume",
    steps: [
      {
        ...start,
        name: "resume",
        run: async (ctx) => {
          const { args, signal } = ctx;
          const config = host.configs.get(args.vmid);
          if (hasLock(config, "suspended") && runningVm(host, args.vmid) === undefined) return start.run(ctx);
          if (isTemplate(config)) throw conflict(`VM ${args.vmid} is a template and cannot be resumed!`);
          const process = requireRunningVm(host, args.vmid);
          const { status } = await process.qmp.execute("query-status", undefined, { signal });
          if (status === "running") return;
          if (!hasLock(config, "backup")) requireUnlocked(host, args);
          await continueGuest(process, signal);
        },
      },
    ],
  };
}

/** States in which a guest does not see its power button. */
export function isDeafToButton(status: string): boolean {
  return status === "paused" || status === "prelaunch" || status === "suspended";
}

/** Asks the guest to switch itself off, and waits for it. */
export async function shutDown(
  host: StopVmPorts,
  process: QemuProcess,
  args: ShutdownArgs,
  work: { readonly signal: AbortSignal; readonly log: (line: string) => void },
): Promise<void> {
  const paused = isDeafToButton(await statusOf(process, work.signal));
  if (paused && !args.forceStop) throw conflict("VM is paused - cannot shutdown");
  const { values } = host.configs.get(args.vmid);
  await runHook(host, args.vmid, values, "pre-stop", work);
  const end = async (why: string): Promise<void> => {
    work.log(why);
    await process.stop({ signal: work.signal });
    await settleStopped(host, args.vmid, work.log);
  };
  if (paused) return end("VM is paused - stop instead of shutdown");
  let asked: "agent" | "button";
  try {
    asked = await askToPowerDown(host, process, args.vmid, work);
  } catch (err) {
    if (work.signal.aborted || !isAppError(err)) throw err;
    if (args.forceStop) return end("VM quit/powerdown failed - terminating now with SIGTERM");
    throw new AppError(err.code, "VM quit/powerdown failed", { pveStatus: 500, cause: err });
  }
  const seconds = args.timeoutSeconds ?? readStartup(values["startup"] ?? "").down ?? SHUTDOWN_SECONDS;
  const limit = new AbortController();
  const signal = AbortSignal.any([work.signal, limit.signal]);
  const asking = asked === "agent" ? undefined : askAgentWhenUp(host, args.vmid, signal);
  const outcome = await Promise.race([
    process.exited.then(() => "ended" as const),
    host.clock.sleep(seconds * 1000, signal).then(() => "timeout" as const),
  ]).finally(() => limit.abort());
  await asking;
  if (outcome === "ended") return settleStopped(host, args.vmid, work.log);
  if (!args.forceStop) {
    throw new AppError("request.timeout", "VM quit/powerdown failed - got timeout", { pveStatus: 500 });
  }
  await end("VM still running - terminating now with SIGTERM");
}

/** Nothing of a QEMU that does not answer: that is no reason not to end it. */
export async function statusOf(process: QemuProcess, signal?: AbortSignal): Promise<string> {
  try {
    return (await process.qmp.execute("query-status", undefined, signal && { signal })).status;
  } catch (err) {
    if (signal?.aborted === true || !isAppError(err)) throw err;
    return "";
  }
}

/** Its agent, where one answers, does it properly; the power button is for everybody else. */
async function askToPowerDown(
  host: StopVmPorts,
  process: QemuProcess,
  vmid: number,
  work: { readonly signal: AbortSignal },
): Promise<"agent" | "button"> {
  const { signal } = work;
  try {
    if (await askAgent(host, vmid, signal)) return "agent";
    await process.qmp.execute("system_powerdown", undefined, { signal: work.signal });
  } catch (err) {
    // It may have gone down by itself just now.
    if (!process.hasExited || !isAppError(err)) throw err;
  }
  return "button";
}

async function askAgent(host: StopVmPorts, vmid: number, signal: AbortSignal): Promise<boolean> {
  const agent = await answeringAgent(host, vmid, signal);
  await agent?.execute("guest-shutdown", undefined, { noReply: true, signal });
  return agent !== undefined;
}

/** A guest that is only booting does not see its button: its agent is asked as soon as it is there. */
async function askAgentWhenUp(host: StopVmPorts, vmid: number, signal: AbortSignal): Promise<void> {
  if (!agentOptions(host.configs.get(vmid).values).enabled) return;
  try {
    do await host.clock.sleep(AGENT_AGAIN_MS, signal);
    while (!(await askAgent(host, vmid, signal)));
  } catch (err) {
    ignore(err, "the button was pressed: the time limit says how this ends");
  }
}

function requireUnlocked(host: StopVmPorts, args: StopArgs): void {
  if (args.skiplock !== true) checkLock(host.configs.get(args.vmid));
}
