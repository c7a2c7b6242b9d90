// CPUs and memory of a running guest.
import { refused } from "@gpve/domain/request/failures.ts";
import { plugCpu, plugMemory } from "@gpve/domain/vm/argv/device/hotplug-arguments.ts";
import { memoryModules } from "@gpve/domain/vm/argv/processor/memory.ts";
import { unplugDevice } from "@gpve/domain/vm/qmp/qmp-waits.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { memoryMiB } from "@gpve/domain/vm/config/vm-properties.ts";
import { attempt, runningInput, runPlan, UNPLUG_TIMEOUT_MS, type LiveWork } from "./guest-devices.ts";

const MIB = 1024 * 1024;

/** `wanted` undefined = all the CPUs the guest may have. */
export async function setCpus(work: LiveWork, values: VmValues, wanted: string | undefined): Promise<void> {
  const { process } = work;
  const most = Number(values["sockets"] ?? 1) * Number(values["cores"] ?? 1);
  const target = wanted === undefined ? most : Number(wanted);
  if (target > most) throw refused(`you can't add more vcpus than maxcpus`);
  let current = (await process.qmp.execute("query-cpus-fast")).length;
  while (current < target) await runPlan(process, plugCpu(runningInput(work, values), ++current));
  while (current > target)
    await unplugDevice(process.qmp, `cpu${current--}`, { timeoutMs: UNPLUG_TIMEOUT_MS });
}

export async function setMemory(work: LiveWork, values: VmValues, wanted: string): Promise<void> {
  const { process } = work;
  const before = memoryModules(values, memoryMiB(values["memory"]));
  const target = memoryMiB(wanted);
  const after = memoryModules(values, target);
  const last = after.at(-1);
  if (last !== undefined && last.totalMiB !== target)
    throw refused(`memory size (${target}) must be aligned to ${last.sizeMiB} for hotplugging`);
  for (const module of after.slice(before.length)) await runPlan(process, plugMemory(module));
  for (const { name } of before.slice(after.length).toReversed()) {
    await unplugDevice(process.qmp, name, { timeoutMs: UNPLUG_TIMEOUT_MS });
    await attempt(process, { execute: "object-del", arguments: { id: `mem-${name}` } });
  }
}

export async function setBalloon(
  { process }: LiveWork,
  values: VmValues,
  wanted: string | undefined,
): Promise<void> {
  const target = Number(wanted ?? memoryMiB(values["memory"]));
  await process.qmp.execute("balloon", { value: target * MIB });
}
