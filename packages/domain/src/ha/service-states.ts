// The states of a service as a table: for each, what may follow and why.
import { given } from "@gpve/contracts/given.ts";
import type { ServiceStep } from "./service-step.ts";
import type { ExitCode, ServiceConfig, ServiceState, ServiceStatus } from "./model.ts";
import { carryOutCommand, placeService } from "./service-moves.ts";
import { selectNode, whereRoom } from "./select-node.ts";

type Step = (context: ServiceStep, sid: string, service: ServiceStatus, config: ServiceConfig) => void;

const steps: Record<ServiceState, Step> = {
  request_start: requestStart,
  request_start_balance: moving,
  started,
  request_stop: requestStop,
  stopped,
  migrate: moving,
  relocate: moving,
  freeze: frozen,
  fence: fenced,
  recovery,
  error: failed,
};

export function advance(context: ServiceStep, sid: string, service: ServiceStatus): void {
  const config = context.config.get(sid);
  if (config === undefined) return;
  if (freezes(context, service)) return context.change(sid, "freeze");
  steps[service.state](context, sid, service, config);
}

/** The local manager there is restarted, or goes down under a policy that keeps services where they are. */
function freezes(context: ServiceStep, service: ServiceStatus): boolean {
  if (!["started", "stopped", "request_stop"].includes(service.state)) return false;
  return context.nodes.isOnline(service.node) && context.env.localStatus(service.node)?.mode === "restart";
}

/** True when its node is away: then nothing else can be done but, in time, fence it. */
function lost(context: ServiceStep, sid: string, service: ServiceStatus): boolean {
  if (context.nodes.isLost(service.node)) {
    context.change(sid, "fence");
    return true;
  }
  return !context.nodes.isOperational(service.node);
}

function resultOf(context: ServiceStep, service: ServiceStatus): ExitCode | undefined {
  return context.env.localStatus(service.node)?.results[service.uid]?.exit;
}

function afterMove(config: ServiceConfig): ServiceState {
  return config.state === "started" ? "started" : "request_stop";
}

function requestStart(
  context: ServiceStep,
  sid: string,
  service: ServiceStatus,
  config: ServiceConfig,
): void {
  if (context.env.settings().rebalanceOnStart) {
    const best = selectNode(context.placement(), sid, service, config, "best");
    const text = `service ${sid}: re-balance selected`;
    if (best !== undefined && best !== service.node) {
      context.env.log("info", `${text} new node ${best} for startup`);
      return context.change(sid, "request_start_balance", { node: service.node, target: best });
    }
    context.env.log("info", `${text} current node ${service.node} for startup`);
  }
  // Who asked for a move meanwhile still gets it.
  context.change(sid, "started", { node: service.node, ...given({ command: service.command }) });
}

function started(context: ServiceStep, sid: string, service: ServiceStatus, config: ServiceConfig): void {
  if (lost(context, sid, service)) return;
  // Who is stopped by command is wanted stopped from then on: the command knows for how long to wait.
  if (config.state !== "started" && service.command?.kind !== "stop")
    return context.change(sid, "request_stop");
  if (carryOutCommand(context, sid, service)) return;
  if (config.state !== "started") return context.change(sid, "request_stop");
  placeService(context, sid, service, config, resultOf(context, service));
}

function requestStop(context: ServiceStep, sid: string, service: ServiceStatus): void {
  const exit = resultOf(context, service);
  if (exit === undefined || exit === "tryAgain") {
    // Whoever has lost his patience need not wait for a stop that has some; any other one waits for it.
    const { command } = service;
    const isHarder = command?.kind === "stop" && command.timeoutS === 0 && service.timeoutS !== 0;
    if (!lost(context, sid, service) && isHarder) carryOutCommand(context, sid, service);
    return;
  }
  if (exit === "success") return context.change(sid, "stopped");
  context.env.log("error", `service '${sid}' stop failed (exit code 1)`);
  context.change(sid, "error");
}

function stopped(context: ServiceStep, sid: string, service: ServiceStatus, config: ServiceConfig): void {
  if (config.node !== service.node) {
    // Its node was lost while it was on its way: where its configuration is, there it is.
    context.env.log("info", `fixup service '${sid}' location (${service.node} => ${config.node})`);
    service.node = config.node;
  }
  // Also off a dead node: it is fenced first.
  if (carryOutCommand(context, sid, service)) return;
  // Nobody wants a disabled one: it may stay on a dead node. Others are brought to a living one.
  if (config.state === "disabled") return;
  const isReachable = context.nodes.isOperational(service.node);
  if (!isReachable && context.nodes.isLost(service.node)) return context.change(sid, "fence");
  if (config.state === "started" && service.command === undefined)
    context.change(sid, "request_start", { node: service.node });
}

function moving(context: ServiceStep, sid: string, service: ServiceStatus, config: ServiceConfig): void {
  // What was done before its node was lost is done.
  const exit = resultOf(context, service);
  if (exit === undefined || exit === "tryAgain") return void lost(context, sid, service);
  // A local manager that died after the move finds the service gone when it repeats the order: that is success, too.
  const there = exit === "wrongNode" && config.node === service.target;
  if ((exit === "success" || there) && service.target !== undefined) {
    // It was made ready to go: its configuration follows.
    if (config.node !== service.target) context.env.takeOver(sid, service.node, service.target);
    // Who has come home has nothing to go back to.
    const isHome = service.target === service.maintenanceNode;
    const home = isHome ? { maintenanceNode: undefined } : {};
    return context.change(sid, afterMove(config), { node: service.target, ...home });
  }
  if (exit === "wrongNode") {
    context.env.log("error", `service '${sid}' - migration failed: service registered on wrong node!`);
    return context.change(sid, "error");
  }
  if (exit === "ignored") {
    const why = "service already running";
    context.env.log("info", `service '${sid}' - rebalance-on-start request ignored - ${why}`);
    return context.change(sid, afterMove(config), { node: service.node });
  }
  context.env.log("error", `service '${sid}' - migration failed (exit code 1)`);
  context.change(sid, afterMove(config), { node: service.node });
}

function frozen(context: ServiceStep, sid: string, service: ServiceStatus, config: ServiceConfig): void {
  // A move may have ended while nobody looked: where its configuration is, there it is.
  const { node } = config;
  // A node that was lost before it could say that it goes down is looked after as any other.
  if ((context.env.localStatus(node)?.mode ?? "active") !== "active") return;
  context.change(sid, afterMove(config), node === service.node ? {} : { node });
}

function fenced(context: ServiceStep, sid: string, service: ServiceStatus): void {
  if (context.fenced.has(service.node)) context.change(sid, "recovery");
}

function recovery(context: ServiceStep, sid: string, service: ServiceStatus, config: ServiceConfig): void {
  const { env, nodes } = context;
  const placement = context.placement();
  const target = selectNode(whereRoom(placement, env, sid), sid, service, config, "recover");
  if (target !== undefined && selectNode(placement, sid, service, config, "best") === undefined) {
    env.log("notice", `no preferred node of service '${sid}' can take it: recovered where else it may be`);
  }
  if (target === undefined) {
    const from = `from fenced node '${service.node}'`;
    env.log("error", `recovering service '${sid}' ${from} failed, no recovery node found`);
    // Nothing is left to wait for when nobody wants it.
    if (config.state === "disabled") context.change(sid, "stopped", { failedNodes: undefined });
    return;
  }
  if (target === service.node) {
    env.log("info", `recover service '${sid}' to previous failed and fenced node '${target}' again`);
  } else {
    env.log("info", `recover service '${sid}' from fenced node '${service.node}' to node '${target}'`);
    env.takeOver(sid, service.node, target);
  }
  const lock = env.clearGuestLock(sid);
  if (lock !== undefined) {
    env.log("warning", `removed leftover lock '${lock}' from recovered service '${sid}' to allow its start.`);
  }
  const left = nodes.of(service.node) === "maintenance" ? service.node : undefined;
  context.change(sid, afterMove(config), {
    node: target,
    ...given({ maintenanceNode: left }),
  });
}

function failed(context: ServiceStep, sid: string, _service: ServiceStatus, config: ServiceConfig): void {
  // Only the operator can say that it is safe: he does by disabling it.
  if (config.state !== "disabled") return;
  context.change(sid, "stopped", { failedNodes: undefined });
}
