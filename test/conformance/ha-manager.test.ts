// Scenarios that PVE's developers keep for their HA manager, played on ours in virtual time: each service must end on
// the node and in the state expected, the same nodes must be fenced and reset at the same second, and no service may
// ever run twice. And their rule files, which must compile to the same and drop the same rules.
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { afterAll, describe, expect, test } from "vitest";
import { compileRules } from "@gpve/domain/ha/compile-rules.ts";
import { parseRules } from "@gpve/domain/ha/rules.ts";
import type { LogLine } from "@gpve/domain/ha/simulator/scenario.ts";
import { randomFaults } from "@gpve/domain/ha/testing/random-faults.ts";
import { Simulation } from "@gpve/domain/ha/simulator/simulation.ts";
import { readPveCase } from "@gpve/domain/ha/simulator/read-pve-case.ts";
import { endOf, readExpectedLog } from "./ha-manager-end.ts";

const root = resolve(import.meta.dirname, "../..");
const suite = join(process.env["GPVE_SUITES"] ?? resolve(root, "../shared/suites"), "ha-manager");
const present = existsSync(suite);
if (!present) {
  console.warn(`SKIPPED ha-manager conformance: no suite at ${suite}; set GPVE_SUITES to the suites' folder`);
}
const folders = present ? readdirSync(suite).toSorted() : [];

/** Where we end otherwise on purpose: what their log or ours says there, and the reason. */
const deliberate: readonly { readonly says: string; readonly reason: string }[] = [
  {
    says: "migration failed: service registered on wrong node!",
    reason:
      "a move that had ended when its result was lost counts as done, since the configuration is at the target: " +
      "the service runs there instead of waiting in error for the operator",
  },
  {
    says: "they cannot be proven stopped",
    reason:
      "guests that ran without lease and watchdog on a node that was then cut off may still run: they are not started " +
      "elsewhere before that node is back",
  },
  {
    says: "with those it belongs with, node came back from maintenance",
    reason:
      "services that a rule keeps together come back together when a maintenance is over, instead of each being held " +
      "where the others are",
  },
  {
    says: "recovered where else it may be",
    reason:
      "a service whose preferred nodes are held by those it must be apart from is recovered on another node that its " +
      "rules allow, instead of staying down",
  },
];

/** Cases that do not end as expected yet. One that does must leave this list. */
const notYet: readonly string[] = [];

describe.skipIf(!present)("PVE's own HA scenarios", () => {
  const cases = folders.filter((name) => name.startsWith("test-"));
  const passed: string[] = [];
  const otherWords: string[] = [];
  const different: (readonly [string, string])[] = [];
  afterAll(() => {
    console.log(
      [
        `ha-manager: ${passed.length} of ${cases.length} scenarios end as expected, ` +
          `${different.length} deliberately different, ${notYet.length} not yet; ` +
          `${passed.length - otherWords.length} also log the same line by line`,
        ...different.map(([name, why]) => `  different: ${name}: ${why}`),
        ...notYet.map((name) => `  not yet: ${name}`),
        ...(folders.includes("fence_cfgs")
          ? ["  not read: fence_cfgs, files of fence devices: nothing drives such devices"]
          : []),
        ...otherWords.map((name) => `  same end, other log: ${name}`),
      ].join("\n"),
    );
  });

  for (const name of cases) {
    test(`${name} ends as expected and runs nothing twice`, () => {
      const scenario = readPveCase((file) => textOf(join(suite, name, file)));
      const expected = readExpectedLog(join(suite, name));
      const world = new Simulation(scenario).run();
      const end = endOf(scenario, world.log);

      expect(world.doubleStarts).toEqual([]);
      // Our own log tells the truth about our own cluster.
      for (const [sid, { runsOn }] of Object.entries(end.services))
        expect([sid, runsOn]).toEqual([sid, world.runsOn(sid) ?? ""]);
      const wantedEnd = endOf(scenario, expected);
      const purpose = deliberate.find(({ says }) =>
        [...expected, ...world.log].some(({ text }) => text.includes(says)),
      );
      if (purpose !== undefined && !isDeepStrictEqual(end, wantedEnd)) {
        different.push([name, purpose.reason]);
        return;
      }
      if (notYet.includes(name)) {
        expect(end).not.toEqual(wantedEnd);
        return;
      }
      expect(end).toEqual(wantedEnd);
      passed.push(name);
      if (JSON.stringify(world.log.map(line)) !== JSON.stringify(expected.map(line))) otherWords.push(name);
    });
  }
});

function textOf(path: string): string | undefined {
  return existsSync(path) ? readFileSync(path, "utf8") : undefined;
}

/** When a process says that it ends is a matter of whose clock is read. */
function line({ atS, who, text }: LogLine): string {
  return `${/^(?:killed|exit|server received)/.test(text) ? "" : atS} ${who} ${text}`;
}

interface Compiled {
  readonly "node-affinity": Record<string, { readonly nodes: Record<string, { readonly priority: number }> }>;
  readonly "resource-affinity": Record<"positive" | "negative", Record<string, Record<string, number>>>;
}

describe.skipIf(!present)("PVE's own HA rule files", () => {
  const folder = join(suite, "rules_cfgs");
  const files = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith(".cfg")) : [];
  const nodes = ["node1", "node2", "node3"];

  for (const name of files) {
    test(`${name} compiles to the same`, () => {
      const expected = readFileSync(join(folder, `${name}.expect`), "utf8");
      const compiled = compileRules(parseRules(readFileSync(join(folder, name), "utf8")), nodes);
      const want = JSON.parse(expected.split("--- Compiled Config ---")[1] ?? "{}") as Compiled;
      const logged = expected.split("\n").filter((text) => text.startsWith("Drop rule"));
      expect(
        new Set(compiled.dropped.map(({ id, reason }) => `Drop rule '${id}', because ${reason}.`)),
      ).toEqual(new Set(logged));
      expect(peers(compiled.together)).toEqual(wanted(want["resource-affinity"].positive));
      expect(peers(compiled.apart)).toEqual(wanted(want["resource-affinity"].negative));
      const homes = [...compiled.nodeAffinity].map(([sid, rule]) => {
        const named = rule.strict ? [...rule.nodes.keys()] : nodes;
        return [
          sid,
          Object.fromEntries(named.map((node) => [node, { priority: rule.nodes.get(node) ?? -1 }])),
        ];
      });
      const wantHomes = Object.entries(want["node-affinity"]).map(([sid, home]) => [sid, home.nodes]);
      expect(Object.fromEntries(homes)).toEqual(Object.fromEntries(wantHomes));
    });
  }
});

function peers(map: ReadonlyMap<string, ReadonlySet<string>>): Record<string, readonly string[]> {
  return Object.fromEntries([...map].map(([sid, others]) => [sid, [...others].toSorted()]));
}

function wanted(raw: Record<string, Record<string, number>>): Record<string, readonly string[]> {
  return Object.fromEntries(
    Object.entries(raw).map(([sid, others]) => [sid, Object.keys(others).toSorted()]),
  );
}

test("a hundred new random sequences of faults are safe: no service ever runs twice, all run again in the end", () => {
  const first = Number(process.env["GPVE_HA_SEED"] ?? Math.floor(Math.random() * 1e9));
  console.log(`ha simulator: seeds ${first} to ${first + 99}; GPVE_HA_SEED=${first} plays them again`);
  for (let seed = first; seed < first + 100; seed++) {
    const world = new Simulation(randomFaults(seed)).run();
    const down = [...world.services.keys()].filter((sid) => world.runsOn(sid) === undefined);
    expect({ seed, twice: world.doubleStarts, down }).toEqual({ seed, twice: [], down: [] });
  }
});
