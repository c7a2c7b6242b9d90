// Steps on a running QEMU that are taken back when a later one fails.
import { given } from "@gpve/contracts/given.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import type { CommandInput } from "@gpve/domain/vm/argv/command-input.ts";
import type { PlugPlan, QmpCommand } from "@gpve/domain/vm/argv/device/hotplug-arguments.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { commandInput, type ResolvedVolumes, type StartPlanPorts } from "../start/start-plan.ts";

export interface LiveWork {
  readonly host: StartPlanPorts;
  readonly vmid: number;
  readonly process: QemuProcess;
  readonly log: (line: string) => void;
}

/** Guests that are up let go of a device within a second or two; those that are not never do. */
export const UNPLUG_TIMEOUT_MS = 5_000;

/** The running guest's own machine and CPU, with a configuration that has the new device in it. */
export function runningInput(
  { host, vmid, process }: LiveWork,
  values: VmValues,
  volumes: Pick<ResolvedVolumes, "resolved"> = { resolved: new Map() },
): CommandInput {
  const { machine, cpu } = (process.note ?? {}) as { machine?: string; cpu?: string };
  return commandInput(host, vmid, values, volumes, {
    ...given({ machine, cpu }),
  });
}

export async function runPlan(process: QemuProcess, plan: PlugPlan): Promise<void> {
  let done = 0;
  try {
    for (const step of plan.steps) {
      await run(process, step);
      done++;
    }
  } catch (err) {
    // `undo` begins with the last step's.
    for (const step of plan.undo.slice(plan.steps.length - done)) await attempt(process, step);
    throw err;
  }
}

export async function attempt(process: QemuProcess, step: QmpCommand): Promise<void> {
  try {
    await run(process, step);
  } catch (err) {
    ignore(err, "the first failure is what the user hears about");
  }
}

/** Objects (iothreads, throttle groups, memory) by id. */
export async function objectIds(process: QemuProcess): Promise<ReadonlySet<string>> {
  const children = await process.qmp.execute("qom-list", { path: "/objects" });
  return new Set(children.filter(({ type }) => type.startsWith("child<")).map(({ name }) => name));
}

async function run(process: QemuProcess, { execute, arguments: args }: QmpCommand): Promise<void> {
  await process.qmp.raw(execute, args);
}
