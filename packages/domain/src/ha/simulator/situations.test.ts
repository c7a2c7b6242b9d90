// Situations as PVE's developers try them, each with the end that their manager comes to.
import { expect, test } from "vitest";
import type { HaSettings, ServiceConfig } from "../model.ts";
import { play, where } from "../testing/play.ts";

interface Situation {
  readonly services: Readonly<Record<string, Partial<ServiceConfig> & { readonly node: string }>>;
  readonly rules?: string;
  readonly settings?: Partial<HaSettings>;
  readonly script: readonly (readonly string[])[];
  /** State, node, and where it runs. */
  readonly end: Readonly<Record<string, string>>;
}

const one = { "vm:101": { node: "node1" } };
const each = { ...one, "vm:102": { node: "node2" }, "vm:103": { node: "node3" } };
const affinity = (kind: "positive" | "negative", resources: string) =>
  `resource-affinity: ${kind}\n\tresources ${resources}\n\taffinity ${kind}\n`;
const home = (nodes: string, resources: string, strict = 1) =>
  `node-affinity: home\n\tnodes ${nodes}\n\tresources ${resources}\n\tstrict ${strict}\n`;

const situations: Readonly<Record<string, Situation>> = {
  "without quorum nobody starts anything": {
    services: each,
    script: [["power node2 off", "power node3 off"], ["delay 300"], ["power node2 off"]],
    end: { "vm:101": "started node1 -", "vm:102": "started node2 -", "vm:103": "started node3 -" },
  },
  "two nodes come back after all were lost": {
    services: each,
    script: [["power node2 off", "power node3 off"], ["delay 300"], ["power node1 on", "power node2 on"]],
    end: {
      "vm:101": "started node1 node1",
      "vm:102": "started node2 node2",
      "vm:103": "started node1 node1",
    },
  },
  "a start that fails twice works with two more tries": {
    services: { "fa:120": { node: "node1", maxRestart: 2, maxRelocate: 0 } },
    script: [],
    end: { "fa:120": "started node1 node1" },
  },
  "a start that fails on two nodes is tried on the third": {
    services: { "fa:120": { node: "node1", maxRestart: 0, maxRelocate: 2 } },
    script: [],
    end: { "fa:120": "started node3 node3" },
  },
  "a relocation that fails counts as a try, too": {
    services: { "fa:121": { node: "node1", maxRestart: 0, maxRelocate: 2 } },
    script: [],
    end: { "fa:121": "started node2 node2" },
  },
  "a move that failed for the operator is made when he asks again": {
    services: { "fa:101": { node: "node1" } },
    script: [["service fa:101 migrate node2"], ["service fa:101 migrate node2"]],
    end: { "fa:101": "started node2 node2" },
  },
  "who may be nowhere else waits, until nobody wants him": {
    services: { "vm:103": { node: "node3" } },
    rules: home("node3", "vm:103"),
    script: [["power node3 off"], ["delay 200"], ["service vm:103 disabled"]],
    end: { "vm:103": "stopped node3 -" },
  },
  "who is off is brought to a living node, but for those who are disabled": {
    services: {
      "vm:103": { node: "node3", state: "stopped" },
      "vm:104": { node: "node3", state: "disabled" },
    },
    script: [["power node3 off"], ["delay 200"]],
    end: { "vm:103": "stopped node1 -", "vm:104": "stopped node3 -" },
  },
  "who is disabled on a dead node is brought to a living one when somebody asks for it": {
    services: { ...one, "vm:104": { node: "node3", state: "disabled" } },
    script: [["power node3 off"], ["delay 200"], ["service vm:104 migrate node2"], ["delay 200"]],
    end: { "vm:101": "started node1 node1", "vm:104": "stopped node2 -" },
  },
  "a node in maintenance takes nobody in": {
    services: each,
    script: [["crm node3 enable-node-maintenance"], ["service vm:101 migrate node3"]],
    end: {
      "vm:101": "started node1 node1",
      "vm:102": "started node2 node2",
      "vm:103": "started node1 node1",
    },
  },
  "who is stopped at once and wanted again runs where he was": {
    services: one,
    script: [["service vm:101 stop 0"], ["service vm:101 started"]],
    end: { "vm:101": "started node1 node1" },
  },
  "three that must be apart stay so when one has no node left": {
    services: each,
    rules: affinity("negative", "vm:101,vm:102,vm:103"),
    script: [["network node3 off"]],
    end: {
      "vm:101": "started node1 node1",
      "vm:102": "started node2 node2",
      "vm:103": "recovery node3 -",
    },
  },
  "those that belong together leave a lost node together": {
    services: { "vm:101": { node: "node2" }, "vm:102": { node: "node3" }, "vm:103": { node: "node3" } },
    rules: affinity("positive", "vm:101,vm:102,vm:103"),
    script: [["network node3 off"]],
    end: {
      "vm:101": "started node1 node1",
      "vm:102": "started node1 node1",
      "vm:103": "started node1 node1",
    },
  },
  "a pair is recovered away from whom one of the two must be apart": {
    services: { ...one, "vm:102": { node: "node1" }, "vm:201": { node: "node2" } },
    rules: affinity("positive", "vm:101,vm:102") + affinity("negative", "vm:101,vm:201"),
    script: [["network node1 off"]],
    end: {
      "vm:101": "started node3 node3",
      "vm:102": "started node3 node3",
      "vm:201": "started node2 node2",
    },
  },
  "who belongs with a service goes where that one must be": {
    services: { ...one, "vm:102": { node: "node2" } },
    rules: affinity("positive", "vm:101,vm:102") + home("node3", "vm:101"),
    script: [],
    end: { "vm:101": "started node3 node3", "vm:102": "started node3 node3" },
  },
  "a node that goes down for good under failover gives its services away": {
    services: { "vm:103": { node: "node3" }, "ct:105": { node: "node3" } },
    settings: { shutdownPolicy: "failover" },
    script: [["shutdown node3"], ["delay 300"]],
    end: { "vm:103": "started node2 node2", "ct:105": "started node1 node1" },
  },
  "who is disabled while its node is being fenced is recovered, and stays off": {
    services: { "vm:103": { node: "node3" } },
    script: [["network node3 off"], ["service vm:103 disabled"], ["delay 100"]],
    end: { "vm:103": "stopped node1 -" },
  },
  "who left HA while its node was fenced, and comes again, is recovered without another wait": {
    services: { "vm:103": { node: "node3" } },
    script: [
      ["network node3 off"],
      ["service vm:103 delete"],
      ["delay 100"],
      ["service vm:103 add node3 started"],
    ],
    end: { "vm:103": "started node1 node1" },
  },
  "who may be nowhere else runs where it was when its node is back": {
    services: { "vm:103": { node: "node3" } },
    rules: home("node3", "vm:103"),
    script: [["network node3 off"], ["delay 300"], ["power node3 on"]],
    end: { "vm:103": "started node3 node3" },
  },
  "who cannot be stopped is in error, and stays where it runs": {
    services: { "fa:100100": { node: "node2" } },
    script: [["service fa:100100 stopped"]],
    end: { "fa:100100": "error node2 node2" },
  },
  "who cannot be stopped is not relocated": {
    services: { "fa:100100": { node: "node2" } },
    script: [["service fa:100100 relocate node3"]],
    end: { "fa:100100": "started node2 node2" },
  },
  "who is moved by hand off the node that it prefers goes back, unless it has no failback": {
    services: { "vm:101": { node: "node3" }, "vm:102": { node: "node3", failback: false } },
    rules: home("node3", "vm:101,vm:102", 0),
    script: [["service vm:101 migrate node1", "service vm:102 migrate node1"], ["delay 100"]],
    end: { "vm:101": "started node3 node3", "vm:102": "started node1 node1" },
  },
  "a strict rule holds for who has no failback, too": {
    services: { "vm:103": { node: "node3", failback: false } },
    rules: home("node3,node2", "vm:103"),
    script: [["service vm:103 migrate node1"], ["delay 100"]],
    end: { "vm:103": "started node2 node2" },
  },
  "those that belong with a service follow it when its start fails": {
    services: { "fa:120002": { node: "node2" }, "vm:101": { node: "node2" } },
    rules: affinity("positive", "fa:120002,vm:101"),
    script: [["delay 200"]],
    end: { "fa:120002": "started node1 node1", "vm:101": "started node1 node1" },
  },
  "a start that fails is not tried beside whom it must be apart from": {
    services: { ...one, "fa:120002": { node: "node2" } },
    rules: affinity("negative", "fa:120002,vm:101"),
    script: [["delay 200"]],
    end: { "vm:101": "started node1 node1", "fa:120002": "started node3 node3" },
  },
  "two that must be apart do not change places through each other": {
    services: { ...one, "vm:102": { node: "node2" } },
    rules: affinity("negative", "vm:101,vm:102"),
    script: [["service vm:101 migrate node2", "service vm:102 migrate node1"], ["delay 100"]],
    end: { "vm:101": "started node1 node1", "vm:102": "started node2 node2" },
  },
  "a local manager that is restarted while all is frozen changes nothing, armed or not": {
    services: each,
    script: [["crm node1 disarm-ha freeze"], ["restart-lrm node2"], ["crm node1 arm-ha"]],
    end: {
      "vm:101": "started node1 node1",
      "vm:102": "started node2 node2",
      "vm:103": "started node3 node3",
    },
  },
  "who comes under HA while it is disarmed is started when it is armed": {
    services: one,
    script: [["crm node1 disarm-ha ignore"], ["service vm:103 add node3 started"], ["crm node1 arm-ha"]],
    end: { "vm:101": "started node1 node1", "vm:103": "started node3 node3" },
  },
  "a disarming waits for a node that is being fenced": {
    services: each,
    script: [["network node3 off"], ["crm node1 disarm-ha freeze"], ["delay 300"]],
    end: {
      "vm:101": "freeze node1 node1",
      "vm:102": "freeze node2 node2",
      "vm:103": "freeze node1 -",
    },
  },
};

test.each(Object.entries(situations))("%s", (_what, { end, ...given }) => {
  expect(where(play(given))).toEqual(end);
});
