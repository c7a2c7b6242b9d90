// Files that a case of the suite may have and those at hand have not: read, played, and with the end that PVE's manager comes to.
import { expect, test } from "vitest";
import { said, where } from "../testing/play.ts";
import { readPveCase } from "./read-pve-case.ts";
import { Simulation } from "./simulation.ts";
import type { World } from "./world.ts";

const allOn = [["power node1 on", "power node2 on", "power node3 on"]];

function play(files: Readonly<Record<string, unknown>>): World {
  const all: Readonly<Record<string, unknown>> = { cmdlist: allOn, manager_status: {}, ...files };
  const textOf = (content: unknown) => (typeof content === "string" ? content : JSON.stringify(content));
  const world = new Simulation(readPveCase((name) => (name in all ? textOf(all[name]) : undefined))).run();
  expect(world.doubleStarts).toEqual([]);
  return world;
}

test("without files of hardware and services there are three nodes with two services each, all disabled", () => {
  const world = play({ groups: "group: prefer_node1\n\tnodes node1\n" });
  expect(Object.keys(where(world))).toHaveLength(6);
  expect(where(world)["vm:105"]).toBe("stopped node2 -");
});

test("services that run when it begins are taken as they are", () => {
  const world = play({
    service_config: {
      "vm:101": { node: "node1", state: "enabled" },
      "vm:102": { node: "node2", state: "started" },
    },
    service_status_node1: { "vm:101": 1 },
  });
  expect(said(world, "starting service vm:101")).toBe(false);
  expect(said(world, "starting service vm:102")).toBe(true);
  expect(where(world)["vm:101"]).toBe("started node1 node1");
});

test("what a manager left behind is gone on with: maintenance, failed nodes, a command, being disarmed", () => {
  const service = { node: "node3", state: "started" };
  const moved = play({
    service_config: { "vm:103": service },
    manager_status: {
      node_request: { node3: { maintenance: 1 } },
      service_status: { "vm:103": { node: "node3", state: "started", uid: "a" } },
    },
  });
  expect(moved.runsOn("vm:103")).not.toBe("node3");
  expect(moved.manager.nodes["node3"]).toBe("maintenance");

  const relocated = play({
    service_config: { "fa:140": { ...service, node: "node1", max_restart: 0, max_relocate: 2 } },
    manager_status: {
      service_status: { "fa:140": { node: "node1", state: "started", uid: "a", failed_nodes: ["node2"] } },
    },
  });
  // It failed on node2 before: node3 is tried next.
  expect(said(relocated, "relocate service 'fa:140' to node 'node3'")).toBe(true);

  const commanded = play({
    service_config: { "vm:103": service },
    manager_status: {
      service_status: { "vm:103": { node: "node3", state: "started", uid: "a", cmd: ["migrate", "node1"] } },
    },
  });
  expect(where(commanded)["vm:103"]).toBe("started node1 node1");

  const disarmed = play({
    service_config: { "vm:103": service },
    manager_status: {
      disarm: { mode: "freeze", state: "disarmed" },
      service_status: { "vm:103": { node: "node3", state: "freeze", uid: "a" } },
    },
  });
  expect(where(disarmed)["vm:103"]).toBe("freeze node3 -");
});

test("switches are on by any word that PVE takes for it", () => {
  const world = play({
    service_config: { "vm:101": { node: "node1", state: "started" } },
    rules_config: "node-affinity: home\n\tresources vm:101\n\tnodes node2\n\tstrict yes\n",
    cmdlist: [...allOn, ["power node2 off"]],
  });
  // It may be nowhere else.
  expect(world.runsOn("vm:101")).toBeUndefined();
});

test("commands that speak of a node's version are passed over, since groups hold as rules without any upgrade", () => {
  const world = play({
    groups: "group: only2\n\tnodes node2\n\trestricted 1\n",
    service_config: { "vm:101": { node: "node1", state: "started", group: "only2" } },
    cmdlist: [...allOn, ["version node1 set 9.0.1", "version node2 set 9.0.1"]],
  });
  expect(where(world)["vm:101"]).toBe("started node2 node2");
});

test("services without figures have those that follow from their number", () => {
  const world = play({
    "datacenter.cfg": { crs: { ha: "static" } },
    service_config: {
      // Nine processors and fifty GiB on node3, two and half a GiB on node2: who comes after goes to node2.
      "vm:899": { node: "node3", state: "started" },
      "vm:100": { node: "node2", state: "started" },
      "vm:101": { node: "node1", state: "started" },
      "vm:102": { node: "node1", state: "started" },
    },
    cmdlist: [...allOn, ["service vm:103 add node1 started"], ["network node1 off"]],
  });
  for (const sid of ["vm:101", "vm:102", "vm:103"]) expect(world.runsOn(sid)).toBe("node2");
});

test("nodes on which a start failed may stand beside the services", () => {
  const world = play({
    service_config: { "fa:140": { node: "node1", state: "started", max_restart: 0, max_relocate: 2 } },
    manager_status: {
      relocate_tried_nodes: { "fa:140": ["node2"] },
      service_status: { "fa:140": { node: "node1", state: "started", uid: "a" } },
    },
  });
  expect(said(world, "relocate service 'fa:140' to node 'node3'")).toBe(true);
});

test("orders for whom and where nobody knows are refused by the manager, and the case goes on", () => {
  const world = play({
    service_config: { "vm:101": { node: "node1", state: "started" } },
    cmdlist: [
      ...allOn,
      ["service vm:999 migrate node2", "service vm:999 stop 10", "service vm:101 migrate node9"],
      ["service vm:101 relocate node2"],
    ],
  });
  expect(said(world, "crm command error - no such service: migrate vm:999 node2")).toBe(true);
  expect(said(world, "crm command error - no such service: stop vm:999 10")).toBe(true);
  expect(said(world, "crm command error - node not online: migrate vm:101 node9")).toBe(true);
  expect(where(world)).toEqual({ "vm:101": "started node2 node2" });
});
