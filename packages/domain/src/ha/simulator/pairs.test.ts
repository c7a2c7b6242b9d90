// What becomes of services that belong together when nodes go and come.
import { expect, test } from "vitest";
import { play, where } from "../testing/play.ts";

const rules = "resource-affinity: together\n\tresources vm:101,vm:102,ct:103\n\taffinity positive\n";
const services = { "vm:101": { node: "node3" }, "vm:102": { node: "node3" }, "ct:103": { node: "node3" } };
const left = [["crm node3 enable-node-maintenance"], ["delay 200"]];

test("they leave for a maintenance together, and come back together", () => {
  const away = where(play({ services, rules, script: left }));
  expect(new Set(Object.values(away)).size).toBe(1);
  expect(away["vm:101"]).not.toContain("node3");
  const back = play({ services, rules, script: [...left, ["crm node3 disable-node-maintenance"]] });
  expect(new Set(Object.values(where(back)))).toEqual(new Set(["started node3 node3"]));
});

test("they stay where they went when one of them is not to come back", () => {
  const script = [...left, ["crm node3 disable-node-maintenance"]];
  const kept = play({
    services: { ...services, "vm:102": { node: "node3", failback: false } },
    rules,
    script,
  });
  expect(new Set(Object.values(where(kept)))).toEqual(new Set(["started node1 node1"]));
  expect(kept.log.filter(({ text }) => text.includes("back to 'node3'"))).toEqual([]);
});

test("one of them that is off holds nobody back", () => {
  const script = [...left, ["crm node3 disable-node-maintenance"]];
  const world = play({
    services: { ...services, "vm:102": { node: "node3", state: "stopped" } },
    rules,
    script,
  });
  expect(where(world)).toMatchObject({ "vm:101": "started node3 node3", "ct:103": "started node3 node3" });
});
