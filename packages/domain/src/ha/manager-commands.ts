// Commands of the operator, as text lines that any node may queue. Each is judged once, when it is read.
import type { Disarming } from "./disarming.ts";
import type { ServiceStep } from "./service-step.ts";
import type { ManagerStatus, ServiceCommand } from "./model.ts";
import { staysOn } from "./usage.ts";

export function readCommands(
  context: ServiceStep,
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
        order(status, first, { kind: "stop", timeoutS: Number(second) });
        break;
      case "enable-node-maintenance":
        beginMaintenance(context, status, first, line);
        break;
      case "disable-node-maintenance":
        endMaintenance(context, status, first);
        break;
      case "disarm-ha":
        disarming.request(first === "ignore" ? "ignore" : "freeze");
        break;
      case "arm-ha":
        disarming.arm();
        break;
      default:
        context.env.log("error", `unable to parse crm command: ${line}`);
    }
  }
}

function beginMaintenance(context: ServiceStep, status: ManagerStatus, node: string, line: string): void {
  const state = context.nodes.of(node);
  if (state === "maintenance") {
    context.env.log("info", `ignoring crm command - node ${node} is already in maintenance state`);
  } else if (state !== "online") {
    context.env.log("error", `crm command error - node not online: ${line}`);
  } else status.maintenance[node] = true;
}

function endMaintenance(context: ServiceStep, status: ManagerStatus, node: string): void {
  const state = context.nodes.of(node);
  if (state !== "maintenance") {
    const but = `but it's in state ${state}`;
    context.env.log("warning", `clearing maintenance of node ${node} requested, ${but}`);
  }
  delete status.maintenance[node];
}

function order(status: ManagerStatus, sid: string, command: ServiceCommand): void {
  const service = status.services[sid];
  if (service !== undefined) service.command = command;
}

function accepted(context: ServiceStep, line: string): void {
  context.env.log("info", `got crm command: ${line}`);
}

function managed(context: ServiceStep, status: ManagerStatus, sid: string, line: string): boolean {
  if (status.services[sid] !== undefined) return true;
  context.env.log("error", `crm command error - no such service: ${line}`);
  return false;
}

function move(
  context: ServiceStep,
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
  if (status.services[sid]?.node === target) {
    context.env.log("info", `ignore crm command - service already on target node: ${line}`);
    return;
  }
  const { rules } = context.placement();
  const mates = [...(rules.together.get(sid) ?? [])].filter((mate) => status.services[mate] !== undefined);
  for (const mover of [sid, ...mates]) {
    for (const enemy of rules.apart.get(mover) ?? []) {
      const there = status.services[enemy];
      if (there === undefined || !staysOn(there, target)) continue;
      const why = `service '${enemy}' on node '${target}' in negative affinity with service '${mover}'`;
      context.env.log("error", `crm command '${line}' error - ${why}`);
      return;
    }
  }
  accepted(context, line);
  order(status, sid, { kind, target });
  for (const mate of mates.toSorted()) {
    const { node, target: goingTo } = status.services[mate] ?? {};
    if (node === target || goingTo === target) continue;
    const why = `service '${mate}' in positive affinity with service '${sid}'`;
    context.env.log("info", `crm command '${line}' - ${kind} service '${mate}' to node '${target}' (${why})`);
    order(status, mate, { kind, target });
  }
}
