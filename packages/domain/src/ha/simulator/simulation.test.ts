import { describe, expect, test } from "vitest";
import { play, said, where } from "../testing/play.ts";
import { randomFaults } from "../testing/random-faults.ts";
import { Simulation } from "./simulation.ts";

describe("a lost node", () => {
  test("is reset by its watchdog before its services start elsewhere", () => {
    const world = play({ services: { "vm:101": { node: "node3" } }, script: [["network node3 off"]] });
    expect(where(world)).toEqual({ "vm:101": "started node1 node1" });
    const reset =
      world.log.find(({ text }) => text.includes("stopped by poweroff (watchdog)"))?.atS ?? Infinity;
    const fenced = world.log.find(({ text }) => text.startsWith("SUCCEED: fencing"))?.atS ?? 0;
    expect(reset).toBeLessThan(fenced);
  });

  test("keeps a service for which no other node is allowed in recovery until it is back", () => {
    const rules = "node-affinity: only-here\n\tresources vm:101\n\tnodes node3\n\tstrict 1\n";
    const services = { "vm:101": { node: "node3" } };
    const lost = play({ services, rules, script: [["network node3 off"]] });
    expect(where(lost)).toEqual({ "vm:101": "recovery node3 -" });
    const back = play({
      services,
      rules,
      script: [["network node3 off"], ["delay 200"], ["power node3 on"]],
    });
    expect(where(back)).toEqual({ "vm:101": "started node3 node3" });
    expect(said(back, "to previous failed and fenced node")).toBe(true);
  });

  test("is left alone when its guests ran without lease: they cannot be proven stopped", () => {
    const script = [
      ["crm node1 disarm-ha ignore"],
      ["network node3 off"],
      ["crm node1 arm-ha"],
      ["delay 600"],
    ];
    const world = play({ services: { "vm:101": { node: "node3" } }, script });
    expect(where(world)).toEqual({ "vm:101": "started node3 node3" });
    expect(said(world, "cannot be proven stopped")).toBe(true);
  });

  test("was the master: another takes over", () => {
    const world = play({ services: { "vm:101": { node: "node1" } }, script: [["power node1 off"]] });
    expect(where(world)).toEqual({ "vm:101": "started node2 node2" });
    expect(world.manager.masterNode).not.toBe("node1");
  });

  test("moves nothing where the rest has no quorum", () => {
    const script = [["network node1 off", "network node2 off", "network node3 off"]];
    const world = play({ services: { "vm:101": { node: "node1" } }, script });
    expect(world.runsOn("vm:101")).toBeUndefined();
    expect(said(world, "SUCCEED")).toBe(false);
  });

  test("leaves a lock on the guest that recovery clears", () => {
    const world = play({
      services: { "vm:101": { node: "node3" } },
      script: [["service vm:101 lock"], ["power node3 off"]],
    });
    expect(where(world)).toEqual({ "vm:101": "started node1 node1" });
    expect(said(world, "removed leftover lock 'backup'")).toBe(true);
  });
});

describe("operators", () => {
  test("stop and start the coordinator of a node: another is the master meanwhile", () => {
    const script = [
      ["crm node1 stop"],
      ["crm node1 start", "service vm:101 lock"],
      ["power node1 off"],
      ["service vm:101 unlock"],
    ];
    const world = play({ services: { "vm:101": { node: "node3" } }, script });
    expect(world.manager.masterNode).toBe("node2");
    expect(where(world)).toEqual({ "vm:101": "started node3 node3" });
  });

  test("move, stop, disable, ignore and delete services", () => {
    const services = Object.fromEntries(
      ["vm:101", "vm:102", "vm:103", "vm:104", "vm:105"].map((sid) => [sid, { node: "node1" }]),
    );
    const script = [
      ["service vm:101 migrate node2", "service vm:102 relocate node3", "service vm:103 stop 0"],
      [
        "service vm:104 ignored",
        "service vm:105 delete",
        "service vm:103 stop 10",
        "service vm:101 migrate node2",
      ],
      ["service vm:106 add node2", "service vm:999 migrate node1", "service vm:999 stop 1"],
      ["service vm:101 migrate node9", "crm node1 what-is-this"],
    ];
    expect(where(play({ services, script }))).toEqual({
      "vm:101": "started node2 node2",
      "vm:102": "started node3 node3",
      "vm:103": "stopped node1 -",
      "vm:106": "started node2 node2",
    });
  });

  test("send a node into maintenance and have its services back afterwards", () => {
    const services = { "vm:101": { node: "node3" }, "ct:102": { node: "node3" } };
    const away = play({ services, script: [["crm node3 enable-node-maintenance"]] });
    expect(where(away)).toEqual({ "vm:101": "started node2 node2", "ct:102": "started node1 node1" });
    const back = play({
      services,
      script: [["crm node3 enable-node-maintenance"], ["crm node3 disable-node-maintenance"]],
    });
    expect(where(back)).toEqual({ "vm:101": "started node3 node3", "ct:102": "started node3 node3" });
  });

  test("disarm everything and arm it again without touching a guest", () => {
    const services = { "vm:101": { node: "node1" }, "vm:102": { node: "node2", state: "stopped" as const } };
    const disarmed = play({ services, script: [["crm node1 disarm-ha freeze"], ["network node2 off"]] });
    expect(where(disarmed)).toEqual({ "vm:101": "freeze node1 node1", "vm:102": "freeze node2 -" });
    expect(disarmed.nodes.get("node2")?.power).toBe(true);
    const armed = play({ services, script: [["crm node1 disarm-ha freeze"], ["crm node1 arm-ha"]] });
    expect(where(armed)).toEqual({ "vm:101": "started node1 node1", "vm:102": "stopped node2 -" });
  });

  test("may move a service by hand while it is not looked after", () => {
    const script = [
      ["crm node1 disarm-ha ignore"],
      ["service vm:101 manual-migrate node3"],
      ["crm node1 arm-ha"],
    ];
    const world = play({ services: { "vm:101": { node: "node1" } }, script });
    expect(where(world)).toEqual({ "vm:101": "started node3 node3" });
  });
});

describe("a node that goes down in order", () => {
  const services = { "vm:101": { node: "node3" } };
  test.each([
    ["freeze", "shutdown node3", "freeze node3 -"],
    ["failover", "shutdown node3", "started node1 node1"],
    ["conditional", "shutdown node3", "started node1 node1"],
    ["conditional", "reboot node3", "started node3 node3"],
    ["migrate", "shutdown node3", "started node1 node1"],
    ["migrate", "reboot node3", "started node3 node3"],
  ] as const)("under %s, %s: %s", (shutdownPolicy, command, end) => {
    expect(where(play({ services, settings: { shutdownPolicy }, script: [[command]] }))).toEqual({
      "vm:101": end,
    });
  });

  test("is not disturbed by a restart of the local manager", () => {
    const world = play({ services, script: [["restart-lrm node3"]] });
    expect(where(world)).toEqual({ "vm:101": "started node3 node3" });
    expect(said(world, "stopping service")).toBe(false);
  });
});

describe("a failing service", () => {
  test.each([
    ["starts after a retry", "fa:110", {}, "started node1 node1"],
    ["starts on another node", "fa:130", {}, "started node2 node2"],
    ["is given up", "fa:190", { maxRelocate: 0 }, "error node1 -"],
    [
      "retries where it is when all nodes failed",
      "fa:130",
      { maxRestart: 0, maxRelocate: 9 },
      "started node3 node3",
    ],
  ])("%s", (_what, sid, config, end) => {
    expect(where(play({ services: { [sid]: { node: "node1", ...config } }, script: [] }))).toEqual({
      [sid]: end,
    });
  });

  test("that cannot be stopped needs the operator, who disables it", () => {
    const services = { "fa:1001": { node: "node1" } };
    expect(where(play({ services, script: [["service fa:1001 stopped"]] }))).toEqual({
      "fa:1001": "error node1 node1",
    });
    const script = [["service fa:1001 stopped"], ["service fa:1001 disabled"]];
    expect(where(play({ services, script }))).toEqual({ "fa:1001": "stopped node1 node1" });
  });
});

describe("placement", () => {
  test("follows priorities, keeps apart and together", () => {
    const rules = [
      "node-affinity: home\n\tresources vm:101\n\tnodes node2:2,node3:1\n",
      "resource-affinity: apart\n\tresources vm:102,vm:103\n\taffinity negative\n",
      "resource-affinity: together\n\tresources vm:104,vm:105\n\taffinity positive\n",
    ].join("\n");
    const services = {
      "vm:101": { node: "node1" },
      "vm:102": { node: "node1" },
      "vm:103": { node: "node1" },
      "vm:104": { node: "node1" },
      "vm:105": { node: "node2" },
    };
    const world = play({
      services,
      rules,
      script: [["service vm:102 migrate node1"], ["service vm:104 migrate node3"]],
    });
    const nodes = Object.fromEntries(
      Object.entries(world.manager.services).map(([sid, { node }]) => [sid, node]),
    );
    expect(nodes["vm:101"]).toBe("node2");
    expect(nodes["vm:102"]).not.toBe(nodes["vm:103"]);
    expect([nodes["vm:104"], nodes["vm:105"]]).toEqual(["node3", "node3"]);
  });

  test("does not go back without failback", () => {
    const rules = "node-affinity: home\n\tresources vm:101\n\tnodes node3:2,node2:1\n";
    const script = [["power node3 off"], ["delay 300"], ["power node3 on"]];
    const stays = play({ services: { "vm:101": { node: "node3", failback: false } }, rules, script });
    expect(where(stays)).toEqual({ "vm:101": "started node2 node2" });
    const returns = play({ services: { "vm:101": { node: "node3" } }, rules, script });
    expect(where(returns)).toEqual({ "vm:101": "started node3 node3" });
  });

  test("balances by configured load when it starts and recovers", () => {
    const services = {
      "vm:101": { node: "node1" },
      "vm:102": { node: "node1" },
      "vm:103": { node: "node1" },
    };
    const loads = {
      "vm:101": { cpu: 4, memory: 8 },
      "vm:102": { cpu: 2, memory: 4 },
      "vm:103": { cpu: 0, memory: 1 },
    };
    const settings = { scheduler: "static" as const, rebalanceOnStart: true };
    const world = play({ services, loads, settings, script: [] });
    expect(new Set(Object.values(world.manager.services).map(({ node }) => node)).size).toBe(3);
  });

  test("takes what runs for what it uses, and what is to start for all that it may use", () => {
    const idle = {
      services: { "vm:101": { node: "node1" }, "vm:102": { node: "node2" }, "vm:103": { node: "node3" } },
      loads: {
        "vm:101": { cpu: 1, memory: 4 },
        "vm:102": { cpu: 8, memory: 4 },
        "vm:103": { cpu: 1, memory: 4 },
      },
      measured: { "vm:102": { cpu: 0, memory: 4 }, "vm:103": { cpu: 3, memory: 4 } },
    };
    const settings = { scheduler: "dynamic" as const };
    const moved = play({ ...idle, settings, script: [["crm node1 enable-node-maintenance"]] });
    expect(where(moved)["vm:101"]).toBe("started node2 node2");

    const large = { cpu: 1, memory: 8 };
    const asleep = { cpu: 0, memory: 1 };
    const lost = play({
      services: { "vm:101": { node: "node3" }, "vm:102": { node: "node3" }, "vm:103": { node: "node2" } },
      loads: { "vm:101": large, "vm:102": large, "vm:103": large },
      measured: { "vm:101": asleep, "vm:102": asleep, "vm:103": { cpu: 0, memory: 2 } },
      settings,
      script: [["power node3 off"], ["delay 300"]],
    });
    expect(where(lost)).toMatchObject({ "vm:101": "started node1 node1", "vm:102": "started node2 node2" });
  });

  test.each(["bruteforce", "topsis"] as const)("evens measured load out by %s", (method) => {
    const services = {
      "vm:101": { node: "node1" },
      "vm:102": { node: "node1" },
      "vm:103": { node: "node1" },
    };
    const load = { cpu: 2, memory: 4 };
    const autoRebalance = { threshold: 0.3, margin: 0.1, holdRounds: 3, method };
    const world = play({
      services,
      loads: { "vm:101": load, "vm:102": load, "vm:103": load },
      settings: { scheduler: "dynamic", autoRebalance },
      script: [
        ["service vm:101 set-dynamic-stats cpu 2", "service vm:101 set-static-stats maxmem 0"],
        ["delay 300"],
      ],
    });
    expect(new Set(Object.values(world.manager.services).map(({ node }) => node)).size).toBe(3);
  });
});

test("a store that fails for a while holds things up and breaks nothing", () => {
  const script = [
    ["cfs node1 rw fail", "cfs node2 update fail", "service vm:101 stopped", "skip-round crm 1"],
    ["cfs node1 rw work", "cfs node2 update work"],
  ];
  const world = play({ services: { "vm:101": { node: "node1" }, "vm:102": { node: "node2" } }, script });
  expect(where(world)).toEqual({ "vm:101": "stopped node1 -", "vm:102": "started node2 node2" });
});

test("nothing to do for long: leases and watchdogs are given back, and taken again when needed", () => {
  const script = [["service vm:101 delete"], ["delay 2500"], ["service vm:102 add node2 started"]];
  const world = play({ services: { "vm:101": { node: "node3" } }, script });
  expect(said(world, "going idle")).toBe(true);
  expect(where(world)).toEqual({ "vm:102": "started node2 node2" });
});

test("a network that comes and goes: whatever is fenced, nothing runs twice, and all runs when it holds", () => {
  const flaps = [20, 60, 90, 130, 40].flatMap((silentS) => [
    ["network node3 off"],
    [`delay ${silentS}`],
    // Its watchdog may have ended it.
    ["power node3 on", "network node3 on"],
    ["delay 30"],
  ]);
  const world = play({
    services: { "vm:101": { node: "node3" }, "ct:102": { node: "node3" } },
    script: [...flaps, ["delay 300"]],
  });
  for (const sid of ["vm:101", "ct:102"]) {
    expect(world.manager.services[sid]?.state).toBe("started");
    expect(world.runsOn(sid)).toBe(world.manager.services[sid]?.node);
  }
});

test("a script with a command nobody knows says which", () => {
  const services = { "vm:101": { node: "node1" } };
  expect(() => play({ services, script: [["explode node1"]] })).toThrow("unknown command 'explode node1'");
  expect(() => play({ services, script: [["power node9 on"]] })).toThrow(
    "no such node in command 'power node9 on'",
  );
  expect(() => play({ services, script: [["service vm:101 explode"]] })).toThrow("unknown service command");
});

test("a hundred random sequences of faults: no service runs twice, and all run again once all is well", () => {
  for (let seed = 1; seed <= 100; seed++) {
    const world = new Simulation(randomFaults(seed)).run();
    const down = [...world.services.keys()].filter((sid) => world.runsOn(sid) === undefined);
    expect({ seed, twice: world.doubleStarts, down }).toEqual({ seed, twice: [], down: [] });
  }
});
