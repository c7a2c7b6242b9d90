import { expect, test } from "vitest";
import { readScenario } from "./read-scenario.ts";
import { Simulation } from "./simulation.ts";

const nodes = ["n1", "n2", "n3"];

test("what a person wrote is played: the guest of a lost node goes on elsewhere", () => {
  const world = new Simulation(
    readScenario({
      nodes: { n1: { cpus: 8, memoryGiB: 64 }, n2: null, n3: {} },
      services: {
        "vm:100": { node: "n1" },
        "vm:101": { node: "n2" },
        "ct:5": { node: "n3", state: "stopped" },
      },
      rules: "resource-affinity: apart\n  resources vm:100,vm:101\n  affinity negative\n",
      script: ["power n1 off"],
    }),
  ).run();
  expect(world.runsOn("vm:100")).toBe("n3");
  expect(world.runsOn("vm:101")).toBe("n2");
  expect(world.runsOn("ct:5")).toBeUndefined();
  expect(world.doubleStarts).toEqual([]);
});

test("loads, settings and guests that fail by their number may be said, and who runs at the beginning", () => {
  const play = (crs: Readonly<Record<string, unknown>>) =>
    new Simulation(
      readScenario({
        nodes: { n1: { cpus: 8, memoryGiB: 16 }, n2: { cpus: 8, memoryGiB: 16 }, n3: {} },
        services: {
          "vm:1": { node: "n1", runs: true, cpus: 4, memoryGiB: 8, usesCpus: 1 },
          "vm:2": { node: "n1", cpus: 4, memoryGiB: 8, autoRebalance: false },
          "fa:130": { node: "n2", maxRestart: 0, maxRelocate: 0 },
        },
        crs,
        // Whoever switches on himself says when.
        script: [["power n1 on", "power n2 on"], "power n3 on", "service vm:9 add n3", "service vm:9 delete"],
      }),
    ).run();
  const basic = play({});
  expect(basic.log.some(({ text }) => text === "starting service vm:1")).toBe(false);
  expect(basic.runsOn("vm:2")).toBe("n1");
  expect(basic.manager.services["fa:130"]?.state).toBe("error");
  expect(basic.log.find(({ text }) => text === "execute power n3 on")?.atS).toBeGreaterThan(100);
  const balanced = play({ ha: "static", "ha-rebalance-on-start": true });
  expect(balanced.log.some(({ text }) => text.includes("request ignored - service already running"))).toBe(
    true,
  );
});

test.each([
  ["an unknown setting", { nodes, crs: { hb: "static" } }, "crs has no 'hb'; it knows ha, ha-rebalance"],
  ["nothing", undefined, "the scenario must be a mapping"],
  ["no node", { nodes: [] }, "nodes must name at least one node"],
  ["a number as a name", { nodes: [1] }, "nodes must name at least one node"],
  ["an unknown key", { nodes, service: {} }, "has no 'service'; it knows nodes, services"],
  [
    "a strange service",
    { nodes, services: { "100": { node: "n1" } } },
    "services.100 must be named as vm:100",
  ],
  [
    "an unknown node",
    { nodes, services: { "vm:1": { node: "n9" } } },
    "services.vm:1.node must be one of n1, n2, n3",
  ],
  [
    "an unknown state",
    { nodes, services: { "vm:1": { node: "n1", state: "on" } } },
    "services.vm:1.state must be one of started, stopped",
  ],
  [
    "a text as a number",
    { nodes, services: { "vm:1": { node: "n1", maxRestart: "2" } } },
    "services.vm:1.maxRestart must be a number",
  ],
  ["an unknown policy", { nodes, shutdownPolicy: "never" }, "shutdownPolicy must be one of freeze"],
  ["an unknown way to weigh", { nodes, crs: { ha: "statik" } }, "crs.ha must be one of basic, static"],
  [
    "a mode that is neither on nor off",
    { nodes, crs: { "ha-auto-rebalance": "yes" } },
    "crs.ha-auto-rebalance must be one of",
  ],
  ["a threshold in words", { nodes, crs: { "ha-auto-rebalance-threshold": "low" } }, "must be a number"],
  ["rules that are no text", { nodes, rules: [] }, "rules must be the text of a rules file"],
  ["a script that is no list", { nodes, script: "power n1 off" }, "script must be a list"],
  ["an unknown command", { nodes, script: ["explode n1"] }, "script[0] must begin with power"],
  ["a command to nobody", { nodes, script: [["power n9 off"]] }, "script[0] names the node 'n9'"],
  [
    "half a command",
    { nodes, script: ["power n1 sideways"] },
    "script[0] must be written as power NODE on|off",
  ],
  [
    "an unknown word to a service",
    { nodes, services: { "vm:7": { node: "n1" } }, script: ["service vm:7 frob"] },
    "script[0] must be written as service ID started|stopped",
  ],
  [
    "a service that goes nowhere",
    { nodes, script: ["delay 5", "service vm:7 add n9"] },
    "script[1] names the node 'n9', which is not under nodes",
  ],
  [
    "a command about nothing",
    { nodes, script: ["service vm:7 stopped"] },
    "script[0] names the service 'vm:7'",
  ],
])("%s is refused by its name", (_what, value, why) => {
  expect(() => readScenario(value)).toThrow(why);
});
