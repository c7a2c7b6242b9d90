// Labels and taints that workers may not give their own nodes, on a Kubernetes that refuses them as NodeRestriction does.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { isOfKubelet } from "../kubernetes/node-marks.ts";
import { RestKubernetes } from "../kubernetes/rest-kubernetes.ts";
import { stepName } from "../plan/plan-steps.ts";
import { stepCommand, stepText } from "../plan/step-text.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { FakeKubernetes } from "../testing/fake-kubernetes.ts";
import { FakeWorld } from "../testing/fake-world.ts";
import { openedCluster } from "../testing/opened-cluster.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { madeWorld, testDesired } from "../testing/test-desired.ts";
import { markNodes } from "./decide/decide-marks.ts";

const ROLE = "node-role.kubernetes.io/db";
let secrets: SecretsBundle;
let folder: string;
let world: FakeWorld;
beforeAll(async () => {
  secrets = await testBundle();
});
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-talos-marks-"));
  world = new FakeWorld();
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const marked = { labels: { tier: "db", [ROLE]: "" }, taints: { dedicated: "db:NoSchedule" } };

async function apply(pool: object, talos: string) {
  const cluster = testCluster({ versions: { talos }, pools: [{ name: "db", count: 1, ...pool }] });
  const { steps, findings } = await openedCluster(world, { folder, cluster, secrets }).apply();
  expect(findings).toEqual([]);
  return steps.filter(({ kind }) => kind === "node.mark" || kind === "talos.reconfigure");
}

const node = () => world.fakeKubernetes.nodes.get("prod-db-1");

describe.each(["v1.13.9", "v1.14.0"])("workers of Talos %s", (talos) => {
  test("taint their nodes as these register; what they may not give comes from the administrator", async () => {
    const [step, ...others] = await apply(marked, talos);
    expect(others).toEqual([]);
    expect(world.fakeKubernetes.refusals).toEqual(new Set());
    expect(node()).toMatchObject({
      labels: marked.labels,
      taints: [{ key: "dedicated", value: "db", effect: "NoSchedule" }],
    });
    expect(step && stepText(step)).toBe(
      `~ mark the node prod-db-1: label ${ROLE}=, taint dedicated=db:NoSchedule`,
    );
    expect(step && stepCommand(step)).toBe(
      `kubectl label --overwrite node prod-db-1 ${ROLE}= && kubectl taint --overwrite node prod-db-1 dedicated=db:NoSchedule`,
    );
    expect(await apply(marked, talos)).toEqual([]);
  });

  test("get what changes later, and lose what was ours alone", async () => {
    await apply(marked, talos);
    const before = node();
    if (before !== undefined) {
      before.taints = [...(before.taints ?? []), { key: "mine", effect: "NoExecute", timeAdded: "then" }];
      // As Talos does once somebody else has given what it was told of.
      before.annotations["talos.dev/owned-taints"] = '["dedicated"]';
      before.annotations["talos.dev/owned-labels"] = JSON.stringify(["tier", ROLE]);
    }
    world.fakeKubernetes.conflicts = 2;
    const steps = await apply({ labels: { tier: "db" }, taints: { gpu: ":NoExecute" } }, talos);
    expect(steps.map(({ kind }) => kind)).toEqual(["talos.reconfigure", "node.mark"]);
    expect(node()).toMatchObject({
      labels: { tier: "db" },
      taints: [
        { key: "mine", effect: "NoExecute", timeAdded: "then" },
        { key: "gpu", effect: "NoExecute" },
      ],
      annotations: { "talos.dev/owned-labels": '["tier"]' },
    });
    expect(node()?.labels).not.toHaveProperty(ROLE);
    expect(node()?.annotations).not.toHaveProperty("talos.dev/owned-taints");
    await apply({}, talos);
    expect(node()?.taints).toEqual([{ key: "mine", effect: "NoExecute", timeAdded: "then" }]);
    expect(node()?.annotations).not.toHaveProperty("gpve.io/marks");
    expect(await apply({}, talos)).toEqual([]);
  });
});

test("a node whose machine is still to be reconfigured is marked after that, whenever it comes", () => {
  const desired = testDesired(testCluster({ pools: [{ name: "db", count: 1, ...marked }] }));
  const made = madeWorld(desired);
  const unmarked = made.kubernetes && {
    ...made.kubernetes,
    nodes: made.kubernetes.nodes.map(({ marks: _none, ...node }) => node),
  };
  const world = { ...made, kubernetes: unmarked };
  expect(markNodes({ desired, world })?.steps.map(stepName)).toEqual(["node.mark prod-db-1"]);
  const other = { ...desired, config: () => ({ rest: "next", kubelet: undefined, components: undefined }) };
  expect(markNodes({ desired: other, world })).toBeUndefined();
});

test("a node that is always changed by others is given up in the end", async () => {
  const fake = new FakeKubernetes({
    kubelets: () => [{ hostname: "a", isOn: true, version: "1.36.3" }],
    isUp: () => true,
  });
  fake.conflicts = 99;
  const kubernetes = new RestKubernetes(fake.send);
  await expect(kubernetes.markNode("a", { labels: {}, taints: [] })).rejects.toMatchObject({
    code: "object.conflict",
  });
});

test.each([
  ["tier", true],
  ["example.org/role", true],
  ["gpve.io/role", true],
  ["topology.kubernetes.io/zone", true],
  ["node.kubernetes.io/instance-type", true],
  ["kubernetes.io/hostname", true],
  ["node-role.kubernetes.io/db", false],
  ["node-restriction.kubernetes.io/x", false],
  ["app.kubernetes.io/component", false],
  ["k8s.io/x", false],
])("of the label %s it is said that a kubelet may give it: %s", (label, isAllowed) => {
  expect(isOfKubelet(label)).toBe(isAllowed);
});
