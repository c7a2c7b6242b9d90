import { beforeAll, expect, test } from "vitest";
import { machinesOf } from "../cluster/machines.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { clusterStatus } from "../status/cluster-status.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { emptyWorld, testDesired } from "../testing/test-desired.ts";
import { mergedAccess } from "../render/access-text.ts";
import { certificatesIn } from "./merged-certificates.ts";

const DAY_MS = 86_400_000;
let secrets: SecretsBundle;
let other: SecretsBundle;
beforeAll(async () => {
  [secrets, other] = await Promise.all([testBundle(), testBundle()]);
});

async function merged(kind: "talosconfig" | "kubeconfig", before: SecretsBundle, after: SecretsBundle) {
  const cluster = testCluster();
  const of = (bundle: SecretsBundle) => ({
    cluster,
    machines: machinesOf(cluster),
    secrets: bundle,
    now: Date.now(),
  });
  const { text } = await mergedAccess(kind, "", of(before));
  return (await mergedAccess(kind, text, of(after))).text;
}

test.each(["talosconfig", "kubeconfig"] as const)(
  "of a %s the certificates of this cluster's contexts are found, and the days that they last",
  async (kind) => {
    const text = await merged(kind, secrets, other);
    const found = certificatesIn(kind, text, secrets, []);
    expect(found.map(({ context }) => context)).toEqual([kind === "kubeconfig" ? "admin@prod" : "prod"]);
    expect(certificatesIn(kind, text, other, []).map(({ context }) => context)).toEqual([
      kind === "kubeconfig" ? "admin@prod-1" : "prod-1",
    ]);
    const desired = testDesired(testCluster());
    const lock = { version: 1, cluster: "prod", appliedAt: null, contract: null, machines: {} } as const;
    const own = found.map(({ context, crt }) => ({ name: context, crt }));
    const checkAt = (now: number) =>
      clusterStatus(desired, { ...emptyWorld(desired), now }, lock, undefined, own).checks.at(-1);
    expect(checkAt(Date.now())).toMatchObject({ name: "your own access is valid for a month", isFine: true });
    expect(checkAt(Date.now() + 340 * DAY_MS)).toMatchObject({
      isFine: false,
      finding: "access-expires",
      detail: expect.stringMatching(/^(admin@)?prod: 2[45] days$/),
    });
  },
);

test("what is no such file has none", () => {
  for (const text of ["", "a: [", "- 1", "contexts: 3\nclusters: x", "contexts: [{ name: a, context: 1 }]"])
    for (const kind of ["talosconfig", "kubeconfig"] as const)
      expect(certificatesIn(kind, text, secrets, [])).toEqual([]);
});
