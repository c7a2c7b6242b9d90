// What becomes of commands that come at an awkward moment.
import { expect, test } from "vitest";
import { play, said, where } from "../testing/play.ts";

test("who is wanted stopped is stopped, whatever move was asked for in the same moment", () => {
  const script = [["service vm:101 migrate node3", "service vm:101 stopped"]];
  expect(where(play({ services: { "vm:101": { node: "node1" } }, script }))).toEqual({
    "vm:101": "stopped node1 -",
  });
});

test("a service that is off is moved before it is started, when both are asked for", () => {
  const script = [["service vm:101 migrate node3", "service vm:101 started"]];
  expect(where(play({ services: { "vm:101": { node: "node1", state: "stopped" } }, script }))).toEqual({
    "vm:101": "started node3 node3",
  });
});

test("to where it is already: nothing moves, nor do those that belong with it", () => {
  const rules = "resource-affinity: together\n\tresources vm:101,vm:102\n\taffinity positive\n";
  const services = { "vm:101": { node: "node1" }, "vm:102": { node: "node1" } };
  const world = play({ services, rules, script: [["service vm:101 migrate node1"]] });
  expect(said(world, "ignore crm command - service already on target node: migrate vm:101 node1")).toBe(true);
  expect(said(world, "start migrate")).toBe(false);
});

test("an enemy that is off keeps its node; one that is leaving does not", () => {
  const rules = "resource-affinity: apart\n\tresources vm:101,vm:102\n\taffinity negative\n";
  const off = play({
    services: { "vm:101": { node: "node1" }, "vm:102": { node: "node2", state: "stopped" } },
    rules,
    script: [["service vm:101 migrate node2"]],
  });
  expect(where(off)["vm:101"]).toBe("started node1 node1");
  expect(said(off, "in negative affinity with service 'vm:101'")).toBe(true);
  const leaving = play({
    services: { "vm:101": { node: "node1" }, "vm:102": { node: "node2" } },
    rules,
    script: [
      ["service vm:102 migrate node3", "skip-round lrm 2", "delay 20"],
      ["service vm:101 migrate node2"],
    ],
  });
  expect(where(leaving)).toEqual({ "vm:101": "started node2 node2", "vm:102": "started node3 node3" });
});

test("an operator who disables a failed service gives it all its tries again", () => {
  const services = { "fa:130": { node: "node1", maxRestart: 0, maxRelocate: 1 } };
  const once = play({ services, script: [] });
  expect(where(once)["fa:130"]).toMatch(/^error /);
  const again = play({ services, script: [["service fa:130 disabled"], ["service fa:130 started"]] });
  expect(where(again)["fa:130"]).toMatch(/^started /);
});

test("maintenance is asked for twice, or ended where there was none: that is said, and nothing else happens", () => {
  const script = [
    ["crm node3 disable-node-maintenance"],
    ["crm node3 enable-node-maintenance"],
    ["crm node3 enable-node-maintenance"],
  ];
  const world = play({ services: { "vm:101": { node: "node3" } }, script });
  expect(said(world, "clearing maintenance of node node3 requested, but it's in state online")).toBe(true);
  expect(said(world, "ignoring crm command - node node3 is already in maintenance state")).toBe(true);
  expect(where(world)["vm:101"]).toMatch(/^started node[12] node[12]$/);
});

test("who is moved on from its shelter stays there when the maintenance is over", () => {
  const rules = "node-affinity: home\n\tresources vm:101\n\tnodes node3:2,node2:2,node1:1\n";
  const script = [
    ["power node2 off"],
    ["crm node3 enable-node-maintenance"],
    ["power node2 on"],
    ["crm node3 disable-node-maintenance"],
  ];
  const world = play({ services: { "vm:101": { node: "node3" } }, rules, script });
  expect(said(world, "dropping maintenance fallback node 'node3' for 'vm:101'")).toBe(true);
  expect(where(world)["vm:101"]).toBe("started node2 node2");
});

test("who was sent on by a second maintenance goes back to where that one began", () => {
  const script = [
    ["crm node3 enable-node-maintenance"],
    ["crm node1 enable-node-maintenance"],
    ["crm node1 disable-node-maintenance"],
  ];
  const services = { "vm:102": { node: "node2" }, "vm:103": { node: "node3" } };
  const world = play({ services, script: [...script, ["crm node3 disable-node-maintenance"]] });
  expect(said(world, "moving service 'vm:103' back to 'node1'")).toBe(true);
  expect(where(world)["vm:103"]).toBe("started node1 node1");
});

test("a service that is off on a lost node, and is wanted again, is fenced at once", () => {
  const services = { "vm:101": { node: "node1" }, "vm:103": { node: "node3", state: "stopped" as const } };
  const script = [["network node3 off"], ["delay 10"], ["service vm:103 started"]];
  const world = play({ services, script });
  expect(said(world, "'vm:103': state changed from 'stopped' to 'fence'")).toBe(true);
  expect(where(world)["vm:103"]).toMatch(/^started node[12] node[12]$/);
});

test("rounds of local managers can be left out, too", () => {
  const script = [["skip-round lrm 2", "service vm:101 stopped"]];
  const world = play({ services: { "vm:101": { node: "node1" } }, script });
  expect(world.log.filter(({ text }) => text === "skipping LRM round")).toHaveLength(2);
  expect(where(world)).toEqual({ "vm:101": "stopped node1 -" });
});

test("a lost service whose preferred node is held by an enemy runs on another one rather than nowhere", () => {
  const rules = [
    "node-affinity: home\n\tresources vm:101\n\tnodes node3\n",
    "resource-affinity: apart\n\tresources vm:101,vm:102\n\taffinity negative\n",
  ].join("\n");
  const services = { "vm:101": { node: "node2" }, "vm:102": { node: "node3" } };
  const world = play({ services, rules, script: [["power node2 off"]] });
  expect(where(world)["vm:101"]).toBe("started node1 node1");
  expect(said(world, "recovered where else it may be")).toBe(true);
});

test("a service without failback stays where a maintenance sent it", () => {
  const script = [["crm node3 enable-node-maintenance"], ["crm node3 disable-node-maintenance"]];
  const world = play({ services: { "vm:101": { node: "node3", failback: false } }, script });
  expect(where(world)["vm:101"]).toMatch(/^started node[12] node[12]$/);
});

test("a guest that runs when it comes under HA is not stopped to start it on a better node", () => {
  const loads = { "vm:101": { cpu: 4, memory: 8 }, "vm:102": { cpu: 1, memory: 1 } };
  const settings = { scheduler: "static" as const, rebalanceOnStart: true };
  const script = [["service vm:102 add node1 started 1"]];
  const world = play({ services: { "vm:101": { node: "node1" } }, loads, settings, script });
  expect(said(world, "'vm:102' - rebalance-on-start request ignored - service already running")).toBe(true);
  expect(said(world, "stopping service vm:102")).toBe(false);
  expect(where(world)["vm:102"]).toBe("started node1 node1");
});

test("a guest that fails on one node only runs on the next, and comes to no harm elsewhere", () => {
  const failsThere = play({ services: { "fa:190001": { node: "node1" } }, script: [] });
  expect(where(failsThere)["fa:190001"]).toMatch(/^started node[23] node[23]$/);
  const elsewhere = play({ services: { "fa:190001": { node: "node2" } }, script: [] });
  expect(where(elsewhere)["fa:190001"]).toBe("started node2 node2");
  expect(said(elsewhere, "unable to start")).toBe(false);
});

test("a lock that says that a guest is not whole outlives its node; one of work that ended with it does not", () => {
  const services = { "vm:101": { node: "node3" }, "vm:102": { node: "node3" } };
  const script = [["service vm:101 lock create", "service vm:102 lock snapshot"], ["power node3 off"]];
  const world = play({ services, script });
  expect(said(world, "removed leftover lock 'snapshot' from recovered service 'vm:102'")).toBe(true);
  expect(world.runsOn("vm:102")).toBeDefined();
  expect(world.runsOn("vm:101")).toBeUndefined();
  expect(where(world)["vm:101"]).toMatch(/^error /);
  const unlocked = play({ services, script: [...script, ["service vm:101 unlock backup"], ["delay 100"]] });
  expect(unlocked.guestLocks.get("vm:101")).toBe("create");
});

test("who is let go of is not frozen by a second disarming in another mode; armed first, he is", () => {
  const services = { "vm:101": { node: "node1" } };
  const twice = [["crm node1 disarm-ha ignore"], ["crm node2 disarm-ha freeze"]];
  const world = play({ services, script: twice });
  expect(where(world)).toEqual({ "vm:101": "started node1 node1" });
  expect(said(world, "ignoring disarm-ha command - already disarming or disarmed (mode 'ignore'")).toBe(true);
  const between = play({ services, script: [twice[0] ?? [], ["crm node1 arm-ha"], twice[1] ?? []] });
  expect(where(between)).toEqual({ "vm:101": "freeze node1 node1" });
  expect(said(play({ services, script: [["crm node1 arm-ha"]] }), "ignoring arm-ha command")).toBe(true);
});

const inMaintenance = {
  services: { "vm:101": { node: "node1" }, "vm:103": { node: "node3" }, "vm:105": { node: "node3" } },
  rules: "node-affinity: home\n\tresources vm:105\n\tnodes node3\n\tstrict 1\n",
};

test.each(["conditional", "freeze", "failover", "migrate"] as const)(
  "a node in maintenance stays so until it is ended, off and on again, whatever the policy: %s",
  (shutdownPolicy) => {
    const services = { "vm:101": { node: "node1" }, "vm:103": { node: "node3" } };
    const off = [["crm node3 enable-node-maintenance"], ["shutdown node3"]];
    const on = [["delay 300"], ["power node3 on"]];
    const settings = { shutdownPolicy };
    for (const script of [off, [...off, ...on], [["crm node3 enable-node-maintenance"], ["reboot node3"]]]) {
      const world = play({ services, settings, script });
      expect(where(world)["vm:103"]).toBe("started node2 node2");
      expect(world.manager.nodes["node3"]).toBe("maintenance");
      expect(said(world, "back to 'node3'")).toBe(false);
    }
    const ended = play({
      services,
      settings,
      script: [...off, ...on, ["crm node3 disable-node-maintenance"]],
    });
    expect(where(ended)["vm:103"]).toBe("started node3 node3");
  },
);

test("a guest that cannot leave a node in maintenance is stopped when the node goes down, and runs again after a reboot", () => {
  const script = [["crm node3 enable-node-maintenance"], ["reboot node3"]];
  const world = play({ ...inMaintenance, script });
  expect(said(world, "service status vm:105 stopped")).toBe(true);
  expect(where(world)).toMatchObject({ "vm:103": "started node2 node2", "vm:105": "started node3 node3" });
});

test("a local manager that is restarted in maintenance calls nobody back, and lets those run who cannot leave", () => {
  const script = [["crm node3 enable-node-maintenance"], ["restart-lrm node3"]];
  const world = play({ ...inMaintenance, script });
  expect(said(world, "exit (loop end)")).toBe(true);
  expect(said(world, "stopping service vm:105")).toBe(false);
  expect(where(world)).toMatchObject({ "vm:103": "started node2 node2", "vm:105": "started node3 node3" });
});

test("a node reboots also when its coordinator was stopped before, and when nobody can be sent away since all is disarmed", () => {
  const services = { "vm:103": { node: "node3" } };
  const stopped = play({ services, script: [["crm node3 stop"], ["reboot node3"]] });
  expect(where(stopped)).toEqual({ "vm:103": "started node3 node3" });
  const disarmed = play({
    services,
    settings: { shutdownPolicy: "migrate" },
    script: [["crm node1 disarm-ha ignore"], ["reboot node3"]],
  });
  expect(disarmed.log.filter(({ text }) => text === "execute power node3 on")).toHaveLength(2);
  expect(disarmed.manager.nodes["node3"]).toBe("online");
});
