// A node goes down while guests of its are on their way elsewhere.
import { beforeEach, expect, test } from "vitest";
import type { HaEnvironment, ActionOutcome } from "./environment.ts";
import { LocalManager } from "./local-manager.ts";
import type { LocalStatus, ServiceStatus, ShutdownPolicy } from "./model.ts";
import { defaultTimings } from "./model.ts";

let services: Record<string, ServiceStatus>;
let running: Set<string>;
let move: ActionOutcome;
let saved: LocalStatus | undefined;
let policy: ShutdownPolicy;
let node: "online" | "maintenance";

beforeEach(() => {
  services = {
    "vm:101": { state: "migrate", node: "n1", target: "n2", uid: "a" },
    "vm:102": { state: "started", node: "n1", uid: "b" },
  };
  [running, move, node] = [new Set(["vm:101", "vm:102"]), "pending", "online"];
});

function managerUnder(shutdownPolicy: ShutdownPolicy): LocalManager {
  policy = shutdownPolicy;
  const manager = new LocalManager({
    node: "n1",
    timings: defaultTimings,
    log: () => undefined,
    refresh: () => true,
    quorate: () => true,
    lock: () => true,
    unlock: () => undefined,
    feedWatchdog: () => undefined,
    closeWatchdog: () => undefined,
    managerStatus: () => ({ nodes: { n1: node }, maintenance: {}, services }),
    saveLocalStatus: (status: LocalStatus) => void (saved = status),
    services: () => new Map(Object.keys(services).map((sid) => [sid, {}])),
    settings: () => ({ shutdownPolicy: policy }),
    guests: {
      isHere: () => true,
      isRunning: (sid: string) => running.has(sid),
      stop: (sid: string) => running.delete(sid),
      canMove: () => true,
      move: (sid: string) => {
        if (move === true) running.delete(sid);
        return move;
      },
    },
  } as unknown as HaEnvironment);
  manager.round();
  return manager;
}

test.each(["freeze", "failover"] as const)("a move goes on, all others are stopped: %s", (policy) => {
  const manager = managerUnder(policy);
  manager.requestShutdown("reboot");
  expect(manager.round()).toBe(true);
  expect([...running]).toEqual(["vm:101"]);
  if (policy === "freeze") services["vm:102"] = { state: "freeze", node: "n1", uid: "c" };
  move = true;
  manager.round();
  expect(saved?.results["a"]).toEqual({ sid: "vm:101", exit: "success" });
  services["vm:101"] = { state: "started", node: "n2", uid: "d" };
  expect(manager.round()).toBe(false);
});

test("one that cannot be moved is stopped as all others are", () => {
  const manager = managerUnder("failover");
  manager.requestShutdown("shutdown");
  move = false;
  manager.round();
  expect([...running]).toEqual([]);
});

test("asked again under another policy, it no longer waits for what cannot leave", () => {
  services = { "vm:102": { state: "started", node: "n1", uid: "b" } };
  running = new Set(["vm:102"]);
  const manager = managerUnder("migrate");
  manager.requestShutdown("shutdown");
  node = "maintenance";
  expect([manager.round(), manager.round()]).toEqual([true, true]);
  manager.requestShutdown("shutdown");
  expect(manager.round()).toBe(true);
  expect([...running]).toEqual(["vm:102"]);
  policy = "failover";
  manager.requestShutdown("shutdown");
  expect(manager.round()).toBe(false);
  expect([...running]).toEqual([]);
});
