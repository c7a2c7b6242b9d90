import { expect, test } from "vitest";
import type { HaEnvironment } from "./environment.ts";
import type { ManagerStatus } from "./model.ts";
import { defaultTimings, emptyManagerStatus } from "./model.ts";
import { Manager } from "./service-manager.ts";
import { defaultService } from "./simulator/scenario.ts";
import { defaultSettings } from "./testing/default-settings.ts";

test("a node that leaves the cluster in maintenance is not in maintenance when one of its name joins", () => {
  let status: ManagerStatus = { ...emptyManagerStatus(), maintenance: { n1: true, n2: true } };
  const manager = new Manager({
    node: "n1",
    timings: defaultTimings,
    now: () => 0,
    log: () => undefined,
    members: () => new Map([["n1", true]]),
    managerStatus: () => status,
    saveManagerStatus: (saved: ManagerStatus) => void (status = saved),
    localStatus: () => undefined,
    services: () => new Map(),
    rules: () => [],
    settings: () => defaultSettings,
    takeCommands: () => [],
  } as unknown as HaEnvironment);
  manager.round();
  expect(status.maintenance).toEqual({ n1: true });
});

test("rules are read and compiled once in a round, however many services there are", () => {
  let status: ManagerStatus = emptyManagerStatus();
  let compiled = 0;
  const services = new Map(
    Array.from({ length: 50 }, (_, index) => [
      `vm:${100 + index}`,
      { ...defaultService, node: `n${1 + (index % 2)}` },
    ]),
  );
  const manager = new Manager({
    node: "n1",
    timings: defaultTimings,
    now: () => 0,
    log: () => undefined,
    members: () => new Map([1, 2].map((number) => [`n${number}`, true])),
    managerStatus: () => status,
    saveManagerStatus: (saved: ManagerStatus) => void (status = saved),
    localStatus: () => undefined,
    services: () => services,
    rules: () => {
      compiled++;
      return [];
    },
    settings: () => defaultSettings,
    nodeCapacity: () => ({ cpu: 8, memory: 16 }),
    serviceLoad: () => ({ cpu: 1, memory: 1 }),
    takeCommands: () => [],
  } as unknown as HaEnvironment);
  manager.round();
  manager.round();
  expect(Object.values(status.services).every(({ state }) => state === "started")).toBe(true);
  expect(compiled).toBe(2);
});

test("a hard stop is told to the node at once, also while it shuts the guest down; a softer one waits", () => {
  let status: ManagerStatus = emptyManagerStatus();
  let state: "started" | "stopped" = "started";
  const commands: string[] = [];
  const manager = new Manager({
    node: "n1",
    timings: defaultTimings,
    now: () => 0,
    log: () => undefined,
    members: () => new Map([["n1", true]]),
    managerStatus: () => status,
    saveManagerStatus: (saved: ManagerStatus) => void (status = saved),
    localStatus: () => undefined,
    services: () => new Map([["vm:100", { ...defaultService, node: "n1", state }]]),
    rules: () => [],
    settings: () => defaultSettings,
    nodeCapacity: () => ({ cpu: 8, memory: 16 }),
    serviceLoad: () => ({ cpu: 1, memory: 1 }),
    takeCommands: () => commands.splice(0),
  } as unknown as HaEnvironment);
  const after = (command: string) => {
    commands.push(command);
    manager.round();
    return status.services["vm:100"];
  };
  manager.round();
  state = "stopped";
  const soft = after("stop vm:100 600");
  expect(soft).toMatchObject({ state: "request_stop", timeoutS: 600 });
  expect(after("stop vm:100 30")).toMatchObject({ uid: soft?.uid, timeoutS: 600 });
  const hard = after("stop vm:100 0");
  expect(hard).toMatchObject({ state: "request_stop", timeoutS: 0 });
  expect(hard?.uid).not.toBe(soft?.uid);
  expect(after("stop vm:100 0")?.uid).toBe(hard?.uid);
});
