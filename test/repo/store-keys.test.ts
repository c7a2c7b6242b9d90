// The architecture page says which keys are in the cluster's store and what agents see of them.
import { agentKeyRules } from "@gpve/server/application/node/agent-key-rules.ts";
import { expect, test } from "vitest";
import { isTest, read, sources } from "./source-tree.ts";

const table =
  read("docs/architecture.md").split("## Keys in the cluster store\n")[1]?.split("\n## ")[0] ?? "";
/** Prefix to what agents see of it. */
const said = new Map(
  [...table.matchAll(/^\| (`\/gpve\/.*?) +\| .* \| (\w+) +\|$/gm)].flatMap(([, cell = "", seen = ""]) => {
    const [first = "", ...others] = [...cell.matchAll(/`([^`]+)`/g)].map(([, name = ""]) =>
      name.replace("<node>/", ""),
    );
    const folder = first.replace(/[^/]+\/$/, "");
    return [first, ...others.map((name) => folder + name)].map((prefix) => [prefix, seen] as const);
  }),
);
const used = new Set(
  sources()
    .filter((path) => path.startsWith("packages/") && !isTest(path))
    .flatMap((path) => [...read(path).matchAll(/["`](\/gpve\/[a-z.-]+\/(?:[a-z-]+\/)*)/g)])
    .map(([, prefix = ""]) => prefix),
);

test("every prefix of the product has its row, and no row is of one that has gone", () => {
  const rows = [...said.keys()];
  expect(rows.length).toBeGreaterThan(40);
  expect([...used].filter((prefix) => !rows.some((row) => prefix.startsWith(row)))).toEqual([]);
  // Those of the records layer are made where it is.
  const ours = rows.filter((row) => !row.startsWith("/gpve/."));
  expect(ours.filter((row) => ![...used].some((prefix) => prefix.startsWith(row)))).toEqual([]);
});

test("agents see what the page says", () => {
  const { only, leases } = agentKeyRules("n1", () => 0);
  const seen = [...only, leases];
  const found = [...said.keys()].map((prefix) => {
    if (seen.some((one) => prefix.startsWith(one))) return [prefix, "all"] as const;
    return [prefix, seen.some((one) => one.startsWith(prefix)) ? "part" : "none"] as const;
  });
  expect(new Map(found)).toEqual(said);
});
