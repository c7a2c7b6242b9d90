// Commands of a script with the meaning that they have in PVE's simulator, where it is not the obvious one.
import { expect, test } from "vitest";
import { emptyManagerStatus } from "../model.ts";
import { parseRules } from "../rules.ts";
import { defaultSettings } from "../testing/default-settings.ts";
import { play, said, where } from "../testing/play.ts";
import { defaultService } from "./scenario.ts";
import { Simulation } from "./simulation.ts";

const services = { "vm:101": { node: "node1" }, "vm:103": { node: "node3" } };

test("a locked guest is neither stopped nor moved, and runs on where it is", () => {
  const stopped = play({ services, script: [["service vm:101 lock backup"], ["service vm:101 stopped"]] });
  expect(where(stopped)["vm:101"]).toBe("error node1 node1");
  for (const how of ["migrate", "relocate"]) {
    const script = [["service vm:101 lock"], [`service vm:101 ${how} node2`]];
    const moved = play({ services, script });
    expect(said(moved, "service vm:101 not moved (migration error)")).toBe(true);
    expect(where(moved)["vm:101"]).toBe("started node1 node1");
  }
});

test("a guest whose lock is taken away is moved when that is asked for again", () => {
  const script = [
    ["service vm:101 lock"],
    ["service vm:101 migrate node2"],
    ["service vm:101 unlock"],
    ["service vm:101 migrate node2"],
  ];
  expect(where(play({ services, script }))["vm:101"]).toBe("started node2 node2");
});

test("power that is switched on where it is on plugs the network in again", () => {
  const world = play({ services, script: [["network node3 off", "power node3 on"]] });
  expect(said(world, "stopped by poweroff (watchdog)")).toBe(false);
  expect(where(world)["vm:103"]).toBe("started node3 node3");
});

test("rounds to leave out add up", () => {
  const script = [["skip-round crm 2", "skip-round crm"]];
  const skipped = play({ services, script }).log.filter(({ text }) => text === "skipping CRM round");
  expect(skipped).toHaveLength(3);
});

test("a node that goes down takes no second word for it", () => {
  const settings = { shutdownPolicy: "conditional" as const };
  const world = play({ services, settings, script: [["shutdown node3", "reboot node3"]] });
  // Frozen for a reboot it would have come back.
  expect(where(world)["vm:103"]).toMatch(/^started node3 node3$/);
  expect(world.log.filter(({ text }) => text.startsWith("got shutdown request"))).toHaveLength(1);
});

test("a watchdog bites as soon as its time is over, whoever's turn it is", () => {
  // From then on the turns of all others come a second earlier: the time is over between two of node3's own.
  const world = play({ services, script: [["network node3 off", "crm node1 stop"]] });
  const [bite] = world.log.filter(({ who }) => who === "watchdog");
  expect((bite?.atS ?? 0) % 20).toBe(1);
  expect(where(world)["vm:103"]).toMatch(/^started node[12] node[12]$/);
});

test("a round of many nodes takes two seconds for each, also while most of them are off", () => {
  const names = Array.from({ length: 12 }, (_, at) => `node${String(at + 1).padStart(2, "0")}`);
  const on = { power: false, network: false, capacity: { cpu: 8, memory: 16 } };
  const world = new Simulation({
    hardware: new Map(names.map((name) => [name, on])),
    services: new Map([["vm:101", { ...defaultService, node: "node01" }]]),
    configured: new Map(),
    measured: new Map(),
    rules: parseRules(""),
    settings: defaultSettings,
    manager: emptyManagerStatus(),
    script: [names.slice(0, 7).map((name) => `power ${name} on`), ["network node01 off"]],
  }).run();
  const [begins] = world.log.filter(({ text }) => text === "execute network node01 off");
  // One round before the first commands, five until the next.
  expect(begins?.atS).toBe(24 * 6);
  expect(world.doubleStarts).toEqual([]);
});

test("a service that was deleted is not brought back by a wish for it", () => {
  const world = play({ services, script: [["service vm:101 delete"], ["service vm:101 stopped"]] });
  expect(where(world)).toEqual({ "vm:103": "started node3 node3" });
  expect(world.runsOn("vm:101")).toBe("node1");
});
