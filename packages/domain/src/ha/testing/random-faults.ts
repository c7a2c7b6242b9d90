// Random scripts of faults and of operators' doings, the same for the same seed.
import type { ServiceConfig, ShutdownPolicy } from "../model.ts";
import { emptyManagerStatus } from "../model.ts";
import { defaultService } from "../simulator/scenario.ts";
import { defaultSettings } from "./default-settings.ts";
import type { Scenario } from "../simulator/scenario.ts";

const nodes = ["node1", "node2", "node3"];
const policies: readonly ShutdownPolicy[] = ["freeze", "failover", "conditional", "migrate"];

export function randomFaults(seed: number, steps = 12): Scenario {
  const random = generator(seed);
  const pick = <T>(from: readonly [T, ...T[]]): T => from[Math.floor(random() * from.length)] ?? from[0];
  const node = () => pick(["node1", "node2", "node3"]);
  const sids = ["vm:101", "vm:102", "ct:103", "fa:111"];
  const sid = () => pick(["vm:101", "vm:102", "ct:103", "fa:111"]);
  const commands: readonly [() => string, ...(() => string)[]] = [
    () => `network ${node()} off`,
    () => `network ${node()} off`,
    () => `network ${node()} on`,
    () => `power ${node()} off`,
    () => `power ${node()} on`,
    () => `power ${node()} on`,
    () => `shutdown ${node()}`,
    () => `reboot ${node()}`,
    () => `restart-lrm ${node()}`,
    () => `cfs ${node()} ${pick(["rw", "update"])} ${pick(["fail", "work", "work"])}`,
    () => `crm ${node()} ${pick(["enable", "disable"])}-node-maintenance`,
    () => `crm ${node()} ${pick(["disarm-ha freeze", "disarm-ha ignore", "arm-ha", "arm-ha"])}`,
    () => `service ${sid()} ${pick(["migrate", "relocate"])} ${node()}`,
    () => `service ${sid()} ${pick(["started", "started", "stopped", "disabled"])}`,
    () => `skip-round crm ${1 + Math.floor(random() * 3)}`,
  ];
  const faults = Array.from({ length: steps }, () =>
    Array.from({ length: 1 + Math.floor(random() * 3) }, () => pick(commands)()),
  );
  const services = sids.map((name): [string, ServiceConfig] => [
    name,
    { ...defaultService, node: node(), maxRelocate: 3 },
  ]);
  return {
    hardware: new Map(
      nodes.map((name) => [name, { power: false, network: false, capacity: { cpu: 8, memory: 2 ** 34 } }]),
    ),
    services: new Map(services),
    configured: new Map(),
    measured: new Map(),
    rules: [],
    settings: { ...defaultSettings, shutdownPolicy: policies[seed % policies.length] ?? "conditional" },
    manager: emptyManagerStatus(),
    script: [nodes.map((name) => `power ${name} on`), ...faults, ...healed(sids)],
  };
}

/** Everything is well again, in the order in which an operator would see to it. */
function healed(sids: readonly string[]): readonly (readonly string[])[] {
  return [
    nodes.flatMap((name) => [`cfs ${name} rw work`, `cfs ${name} update work`, `network ${name} on`]),
    ["delay 300"],
    nodes.map((name) => `power ${name} off`),
    nodes.map((name) => `power ${name} on`),
    ["delay 300"],
    ["crm node1 arm-ha", ...nodes.map((name) => `crm ${name} disable-node-maintenance`)],
    sids.map((sid) => `service ${sid} disabled`),
    ["delay 300"],
    sids.map((sid) => `service ${sid} started`),
    ["delay 600"],
  ];
}

/** Mulberry32: the same seed, the same numbers from 0 up to 1. */
export function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
