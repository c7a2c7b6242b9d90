// Commands of the operator, as text lines that any node may queue. Each is judged once, when it is read.
import type { Disarming } from "./disarming.ts";
import type { StepContext } from "./step-context.ts";
import type { ManagerStatus } from "./model.ts";
import { nodesUsedBy } from "./usage.ts";

export function readCommands(
  context: StepContext,
  status: ManagerStatus,
  disarming: Disarming,
  own: readonly string[],
): void {
  for (const line of [...context.env.takeCommands(), ...own]) {
    const [verb = "", first = "", second = ""] = line.split(/\s+/);
    switch (verb) {
      case "migrate":
      case "relocate":
        move(context, status, verb, first, second);
        break;
      case "stop":
        if (!managed(context, status, first, line)) break;
        accepted(context, line);
        context.commands.set(first, { kind: "stop", timeoutS: Number(second) });
        break;
      case "enable-node-maintenance":
        if (!context.nodes.isOnline(first)) {
          context.env.log("error", `crm command error - node not online: ${line}`);
          break;
        }
        status.maintenance[first] = true;
        break;
      case "disable-node-maintenance":
        delete status.maintenance[first];
        break;
      case "disarm-ha":
        accepted(context, line);
        disarming.request(first === "ignore" ? "ignore" : "freeze");
        break;
      case "arm-ha":
        accepted(context, line);
        disarming.arm();
        break;
      default:
        context.env.log("error", `unable to parse crm command: ${line}`);
    }
  }
}

function accepted(context: StepContext, line: string): void {
  context.env.log("info", `got crm command: ${line}`);
}

function managed(context: StepContext, status: ManagerStatus, sid: string, line: string): boolean {
  if (status.services[sid] !== undefined) return true;
  context.env.log("error", `crm command error - no such service: ${line}`);
  return false;
}

function move(
  context: StepContext,
  status: ManagerStatus,
  kind: "migrate" | "relocate",
  sid: string,
  target: string,
): void {
  const line = `${kind} ${sid} ${target}`;
  if (!managed(context, status, sid, line)) return;
  if (!context.nodes.isOnline(target)) {
    context.env.log("error", `crm command error - node not online: ${line}`);
    return;
  }
  const { rules } = context.placement();
  const mates = [...(rules.together.get(sid) ?? [])].filter((mate) => status.services[mate] !== undefined);
  for (const mover of [sid, ...mates]) {
    for (const enemy of rules.apart.get(mover) ?? []) {
      const there = status.services[enemy];
      if (there === undefined || !nodesUsedBy(there).includes(target)) continue;
      const why = `service '${enemy}' on node '${target}' in negative affinity with service '${mover}'`;
      context.env.log("error", `crm command '${line}' error - ${why}`);
      return;
    }
  }
  accepted(context, line);
  context.commands.set(sid, { kind, target });
  for (const mate of mates.toSorted()) {
    if (status.services[mate]?.node === target) continue;
    const why = `service '${mate}' in positive affinity with service '${sid}'`;
    context.env.log("info", `crm command '${line}' - ${kind} service '${mate}' to node '${target}' (${why})`);
    context.commands.set(mate, { kind, target });
  }
}
