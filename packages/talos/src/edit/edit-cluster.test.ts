import { expect, test } from "vitest";
import { minimalFile } from "../testing/test-cluster.ts";
import { editCluster, parseEdit } from "./edit-cluster.ts";

const commented = `# Ours.\n${minimalFile.replace("pools: [{ name: worker, count: 2 }]", "pools:\n  # Web.\n  - name: worker\n    count: 2 # for now\n")}`;
const edit = (...changes: readonly string[]) =>
  editCluster(commented, changes.map(parseEdit), "cluster.yaml", {});

test("a value is changed in its place, everything else stays as it was", () => {
  expect(edit("pools.worker.count=4", "versions.talos=v1.13.8")).toBe(
    commented.replace("count: 2 #", "count: 4 #").replace("v1.13.9", "v1.13.8"),
  );
  expect(edit("pools.0.count=3")).toContain("    count: 3 # for now");
});

test("keys are added and taken out, comments stay", () => {
  const text = edit("network.dns=[10.0.0.1]", "endpoint.vip-", "endpoint.dns=k8s.example.org");
  expect(text).toContain("# Ours.");
  expect(text).toContain("# Web.");
  expect(text).toContain("dns: [ 10.0.0.1 ]");
  expect(text).not.toContain("vip");
});

test("lines that are not changed keep their layout", () => {
  const laid = commented.replace("# Web.", "# Web.  [ x ]").replace("network:", 'tags: [a, "b"]\nnetwork:');
  expect(laid).toContain("tags: [a,");
  const changes = ["pools.worker.labels={tier: web}", "endpoint.port=7443"].map(parseEdit);
  const changed = editCluster(laid, changes, "cluster.yaml", {}).split("\n");
  expect(changed.filter((line) => !laid.split("\n").includes(line)).map((line) => line.trim())).toEqual([
    "endpoint: { vip: 10.0.0.9, port: 7443 }",
    "labels:",
    "tier: web",
  ]);
});

test("a file of several documents is left alone", () => {
  const two = `${commented}---\n${commented}`;
  for (const change of ["pools.worker.count=3", "network.dns=[10.0.0.1]"])
    expect(() => editCluster(two, [parseEdit(change)], "cluster.yaml", {})).toThrow("more than one document");
});

test("text that would read as something else is quoted", () => {
  expect(edit("pools.worker.labels={tier: web}", 'metadata.name="123"')).toContain('name: "123"');
});

test("keys that have dots stand in quotes", () => {
  const labelled = edit('pools.worker.labels."example.org/tier"=web', 'pools.worker.labels."a=b"-');
  expect(labelled).toContain("example.org/tier: web");
});

test.each([
  ["versions.talos.minor=13", "versions.talos.minor leads through something that has no keys"],
  ["versions.talos.minor-", "versions.talos.minor leads through something that has no keys"],
  ["network..dns=1", '"network..dns" is no key'],
  ['network."dns=1', "write KEY=VALUE"],
  ["controlPlane.count=2", "controlPlane.count is 2: an even number"],
  ["pools.other.count=2", 'pools has no "other": there is worker'],
  ["pools.worker.cont=2", "did you mean count?"],
  ["controlPlane.count", "write KEY=VALUE"],
  ["network.dns=[", "the value of network.dns is no YAML"],
])("%s is refused", (change, message) => {
  expect(() => edit(change)).toThrow(message);
});
