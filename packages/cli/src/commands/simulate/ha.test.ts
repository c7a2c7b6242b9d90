import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Gpvectl } from "../../testing/run-gpvectl.ts";

const example = readFileSync(
  resolve(import.meta.dirname, "../../../../../examples/ha/node-loss.yaml"),
  "utf8",
);

let gpvectl: Gpvectl;
beforeEach(async () => {
  gpvectl = await Gpvectl.create();
});
afterEach(() => gpvectl[Symbol.asyncDispose]());

const play = (text: string, ...more: readonly string[]) => {
  writeFileSync(join(gpvectl.home, "a.yaml"), text);
  return gpvectl.run(["simulate", "ha", "a.yaml", ...more]);
};

test("the example shows a node fenced and its guest started away from the other one", async () => {
  const ran = await play(example);
  expect(ran.code).toBe(0);
  expect(ran.out).toContain("server 'n1' stopped by poweroff (watchdog)");
  expect(ran.out).toMatch(/^vm:100 +started +started +n3 +n3$/m);
  expect(ran.out).toMatch(/^vm:101 +started +started +n2 +n2$/m);
  expect(ran.out).toMatch(/^ct:102 +started +started +n2 +n2$/m);
  expect(ran.out).toMatch(/^n1 was reset by its watchdog after \d+ s\.\nn1 was fenced after \d+ s\.$/m);
});

test("only the end, for people and for programs", async () => {
  expect((await play(example, "--end-only")).out).toMatch(/^SERVICE /);
  const end = await play(example, "--end-only", "--output", "json");
  expect(JSON.parse(end.out)).not.toHaveProperty("log");
  const { out } = await play(example, "--output", "json");
  expect(JSON.parse(out)).toMatchObject({
    ranTwice: [],
    reset: [{ node: "n1", seconds: expect.any(Number) as unknown }],
    fenced: [{ node: "n1", seconds: expect.any(Number) as unknown }],
    services: [{ service: "ct:102" }, { service: "vm:100", runsOn: "n3" }, { service: "vm:101" }],
  });
});

test("a mistake is named with the file and the key", async () => {
  const wrong = await play("nodes: [n1]\nscript: [power n2 off]\n");
  expect(wrong.code).not.toBe(0);
  expect(wrong.err).toContain("a.yaml: script[0] names the node 'n2', which is not under nodes");
  expect((await play("nodes: [")).err).toContain("a.yaml line 1");
  expect((await gpvectl.run(["simulate", "ha", "none.yaml"])).err).toContain("none.yaml cannot be read");
});

test("a rule that is not followed is named at the end", async () => {
  const rule = (name: string, affinity: string) =>
    `  resource-affinity: ${name}\n    resources vm:1,vm:2\n    affinity ${affinity}\n`;
  const text = `nodes: [n1, n2, n3]\nservices: { vm:1: { node: n1 }, vm:2: { node: n2 } }\nrules: |\n${rule("a", "negative")}${rule("b", "positive")}`;
  const { out } = await play(`${text}script: [power n1 off]\n`, "--end-only");
  expect(out).toMatch(/^Not followed: rule 'a', because rule shares two or more resources with a positive/m);
  expect(out).toMatch(/^Not followed: rule 'b', because /m);
});

test("a folder is a case as PVE's simulator keeps them", async () => {
  const files: Readonly<Record<string, unknown>> = {
    cmdlist: [["power node1 on", "power node2 on", "power node3 on"], ["power node3 off"]],
    service_config: { "vm:103": { node: "node3", state: "started" } },
    rules_config: "node-affinity: home\n\tresources vm:103\n\tnodes node3:2,node2:1\n",
  };
  mkdirSync(join(gpvectl.home, "case"));
  for (const [name, content] of Object.entries(files))
    writeFileSync(
      join(gpvectl.home, "case", name),
      typeof content === "string" ? content : JSON.stringify(content),
    );
  const ran = await gpvectl.run(["simulate", "ha", "case", "--end-only"]);
  expect(ran.out).toMatch(/^vm:103 +started +started +node2 +node2$/m);
  expect((await gpvectl.run(["simulate", "ha", "case/cmdlist", "--end-only"])).out).toBe(ran.out);
  writeFileSync(join(gpvectl.home, "case/service_config"), "{");
  expect((await gpvectl.run(["simulate", "ha", "case"])).err).toContain("case: service_config is no JSON");
  mkdirSync(join(gpvectl.home, "empty"));
  expect((await gpvectl.run(["simulate", "ha", "empty"])).err).toContain("empty: there is no cmdlist in it");
});
