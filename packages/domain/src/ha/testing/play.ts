// Plays a script on three simulated nodes, which are switched on first.
import { expect } from "vitest";
import { emptyManagerStatus } from "../model.ts";
import type { HaSettings, Load, ServiceConfig } from "../model.ts";
import { parseRules } from "../rules.ts";
import { defaultService } from "../simulator/scenario.ts";
import { defaultSettings } from "./default-settings.ts";
import { Simulation } from "../simulator/simulation.ts";
import type { World } from "../simulator/world.ts";

const names = ["node1", "node2", "node3"];
const allOn = names.map((name) => `power ${name} on`);

interface Given {
  readonly services: Readonly<Record<string, Partial<ServiceConfig> & { readonly node: string }>>;
  readonly script: readonly (readonly string[])[];
  readonly rules?: string;
  readonly settings?: Partial<HaSettings>;
  readonly loads?: Readonly<Record<string, Load>>;
  /** What they use, where that is not what they may use. */
  readonly measured?: Readonly<Record<string, Load>>;
}

export function play({
  services,
  script,
  rules = "",
  settings = {},
  loads = {},
  measured = loads,
}: Given): World {
  const capacity = { cpu: 8, memory: 16 };
  const world = new Simulation({
    hardware: new Map(names.map((name) => [name, { power: false, network: false, capacity }])),
    services: new Map(
      Object.entries(services).map(([sid, config]) => [sid, { ...defaultService, ...config }]),
    ),
    configured: new Map(Object.entries(loads)),
    measured: new Map(Object.entries(measured)),
    rules: parseRules(rules),
    settings: { ...defaultSettings, ...settings },
    manager: emptyManagerStatus(),
    script: [allOn, ...script],
  }).run();
  expect(world.doubleStarts).toEqual([]);
  return world;
}

/** State, node, and where it runs. */
export const where = (world: World): Record<string, string> =>
  Object.fromEntries(
    Object.entries(world.manager.services).map(([sid, { state, node }]) => [
      sid,
      `${state} ${node} ${world.runsOn(sid) ?? "-"}`,
    ]),
  );
export const said = (world: World, text: string): boolean =>
  world.log.some((line) => line.text.includes(text));
