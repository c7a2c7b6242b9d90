// What takes a running service elsewhere or down: an operator's command, a failed start, maintenance, better placement.
import type { ServiceStep } from "./service-step.ts";
import type { ExitCode, ServiceConfig, ServiceStatus } from "./model.ts";
import { selectNode, whereRoom } from "./select-node.ts";

/** True when a command of the operator was carried out. */
export function carryOutCommand(context: ServiceStep, sid: string, service: ServiceStatus): boolean {
  const { command } = service;
  if (command === undefined) return false;
  service.command = undefined;
  if (command.kind === "stop") {
    const { timeoutS } = command;
    if (service.state === "stopped") {
      context.env.log("info", `ignore service '${sid}' stop request - service already stopped`);
      return false;
    }
    const how = timeoutS === 0 ? "immediate service hard-stop" : `graceful stop with timeout '${timeoutS}'`;
    context.env.log("info", `request ${how} for service '${sid}'`);
    context.change(sid, "request_stop", { timeoutS });
    return true;
  }
  const { kind, target } = command;
  if (!context.nodes.isOnline(target)) {
    context.env.log("error", `ignore service '${sid}' ${kind} request - node '${target}' not online`);
    return false;
  }
  if (target === service.node) {
    context.env.log("info", `ignore service '${sid}' ${kind} request - service already on node '${target}'`);
    return false;
  }
  if (service.state !== "stopped") context.env.log("info", `${kind} service '${sid}' to node '${target}'`);
  context.change(sid, kind, { node: service.node, target });
  return true;
}

export function placeService(
  context: ServiceStep,
  sid: string,
  service: ServiceStatus,
  config: ServiceConfig,
  exit: ExitCode | undefined,
): void {
  const { env } = context;
  if (exit === "wrongNode") return context.change(sid, "error");
  if (exit === "error") return afterFailedStart(context, sid, service, config);
  if (exit === "success" && (service.failedNodes?.length ?? 0) > 0) {
    const nodes = (service.failedNodes ?? []).join(", ");
    env.log(
      "info",
      `relocation policy successful for '${sid}' on node '${service.node}', failed nodes: ${nodes}`,
    );
    service.failedNodes = undefined;
  }
  if (context.nodes.of(service.node) === "maintenance") service.maintenanceNode = service.node;
  else forgetMaintenance(context, sid, service);
  const mustLeave = context.nodes.of(service.node) === "maintenance";
  // Sent where there is no room it would be sent again and again, though a third node has some.
  const placement = mustLeave ? whereRoom(context.placement(), env, sid) : context.placement();
  const node = selectNode(placement, sid, service, config, "stay");
  if (node === undefined || node === service.node) return;
  const back = node === service.maintenanceNode;
  if (back) {
    const mates = (placement.rules.together.get(sid)?.size ?? 0) > 0 ? " with those it belongs with" : "";
    env.log("info", `moving service '${sid}' back to '${node}'${mates}, node came back from maintenance.`);
  } else dropFallback(context, sid, service);
  const details = { node: service.node, target: node };
  // Only VMs can move while they run. A move that fails costs them nothing: they go back at another time.
  if (sid.startsWith("vm:")) {
    env.log("info", `migrate service '${sid}' to node '${node}' (running)`);
    return context.change(sid, "migrate", details);
  }
  env.log("info", `relocate service '${sid}' to node '${node}'`);
  // Every further try would stop it once more.
  context.change(sid, "relocate", { ...details, ...(back ? { maintenanceNode: undefined } : {}) });
}

/** Somebody who moves on for another reason has no place to go back to. */
function dropFallback(context: ServiceStep, sid: string, service: ServiceStatus): void {
  const { maintenanceNode } = service;
  if (maintenanceNode === undefined || maintenanceNode === service.node) return;
  context.env.log("info", `dropping maintenance fallback node '${maintenanceNode}' for '${sid}'`);
  service.maintenanceNode = undefined;
}

function forgetMaintenance(context: ServiceStep, sid: string, service: ServiceStatus): void {
  if (service.maintenanceNode !== service.node) return;
  const { node } = service;
  context.env.log(
    "info",
    `service '${sid}': clearing stale maintenance node '${node}' setting (is current node)`,
  );
  service.maintenanceNode = undefined;
}

function afterFailedStart(
  context: ServiceStep,
  sid: string,
  service: ServiceStatus,
  config: ServiceConfig,
): void {
  const { env } = context;
  const tried = [...(service.failedNodes ?? []), service.node];
  if (tried.length > config.maxRelocate) {
    const nodes = tried.join(", ");
    env.log(
      "error",
      `recovery policy for service ${sid} failed, entering error state. Failed nodes: ${nodes}`,
    );
    return context.change(sid, "error", { failedNodes: tried });
  }
  env.log("warning", `starting service ${sid} on node '${service.node}' failed, relocating service.`);
  service.failedNodes = tried;
  const node = selectNode(whereRoom(context.placement(), env, sid), sid, service, config, "next");
  if (node !== undefined && node !== service.node) {
    dropFallback(context, sid, service);
    env.log("info", `relocate service '${sid}' to node '${node}'`);
    return context.change(sid, "relocate", { node: service.node, target: node });
  }
  env.log(
    "warning",
    `Start Error Recovery: Tried all available nodes for service '${sid}', retry start on current node. Tried nodes: ${tried.join(", ")}`,
  );
  context.change(sid, "started", { node: service.node });
}
