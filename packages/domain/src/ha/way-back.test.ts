import { expect, it } from "vitest";
import type { ExitCode, ServiceStatus } from "./model.ts";
import { advance } from "./service-states.ts";
import type { ServiceStep } from "./service-step.ts";

/** A service that left n1 for maintenance, which is over, and whose moves end as they are told to. */
function world(sid: string, isLost = false) {
  const service: ServiceStatus = { state: "started", node: "n2", uid: "0", maintenanceNode: "n1" };
  const state = { service, where: "n2", exit: undefined as ExitCode | undefined };
  const context = (): ServiceStep => ({
    env: {
      log: () => undefined,
      takeOver: () => undefined,
      localStatus: () => ({ mode: "active", results: { [state.service.uid]: { exit: state.exit } } }),
    } as never,
    nodes: {
      of: () => "online",
      isLost: () => isLost,
      isOnline: () => !isLost,
      isOperational: () => !isLost,
    } as never,
    config: new Map([
      [
        sid,
        {
          node: state.where,
          state: "started",
          maxRestart: 1,
          maxRelocate: 1,
          failback: true,
          autoRebalance: false,
        },
      ],
    ]),
    fenced: new Set(),
    placement: () =>
      ({
        rules: { nodeAffinity: new Map(), apart: new Map(), together: new Map() },
        usage: { scores: () => new Map() },
        online: ["n1", "n2", "n3"],
        services: { [sid]: state.service },
      }) as never,
    change: (_sid, to, details = {}) => {
      state.service = { ...state.service, ...details, state: to, uid: `${Number(state.service.uid) + 1}` };
    },
  });
  return {
    state,
    step: (exit?: ExitCode): string => {
      state.exit = exit;
      advance(context(), sid, state.service);
      return `${state.service.state} ${state.service.target ?? ""}`.trim();
    },
  };
}

it("a VM whose way back failed goes back later, and then has nothing to go back to", () => {
  const { state, step } = world("vm:101");
  expect(step()).toBe("migrate n1");
  expect(step("error")).toMatch(/^started/);
  expect(state.service).toMatchObject({ node: "n2", maintenanceNode: "n1" });
  expect(step()).toBe("migrate n1");
  state.where = "n1";
  expect(step("success")).toMatch(/^started/);
  expect(state.service).toMatchObject({ node: "n1", maintenanceNode: undefined });
});

it("a service that would be stopped for it tries once", () => {
  const { state, step } = world("ct:101");
  expect(step()).toBe("relocate n1");
  expect(step("error")).toMatch(/^started/);
  expect(state.service).toMatchObject({ node: "n2", maintenanceNode: undefined });
});

it("what was done before the node was lost is done: only what is open waits for the fence", () => {
  const moved = world("vm:101", true);
  Object.assign(moved.state.service, { state: "migrate", target: "n3" });
  moved.state.where = "n3";
  expect(moved.step("success")).toMatch(/^started/);
  expect(moved.state.service.node).toBe("n3");
  const stopped = world("vm:101", true);
  stopped.state.service.state = "request_stop";
  expect(stopped.step("success")).toBe("stopped");
  const open = world("vm:101", true);
  open.state.service.state = "request_stop";
  expect(open.step()).toBe("fence");
});

it("a command waits on its service while the node is out of sight", () => {
  const away = world("vm:101", true);
  Object.assign(away.state.service, { state: "freeze", command: { kind: "migrate", target: "n3" } });
  away.step();
  expect(away.state.service.command).toEqual({ kind: "migrate", target: "n3" });
});
