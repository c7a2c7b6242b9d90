import { expect, test } from "vitest";
import { machinesOf } from "../cluster/machines.ts";
import { clusterOutputs } from "../output/cluster-outputs.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { emptyWorld, testDesired } from "../testing/test-desired.ts";
import { clusterStatus } from "./cluster-status.ts";
import { statusPage } from "./status-page.ts";

test("labels of the cluster are told by its outputs, its status and the page", () => {
  const labels = { environment: "production", team: "<web>" };
  const cluster = testCluster({ metadata: { name: "prod", labels } });
  const machines = machinesOf(cluster);
  expect(clusterOutputs({ cluster, machines })).toMatchObject({ cluster_labels: labels });
  const desired = testDesired(cluster);
  const lock = { version: 1, cluster: "prod", appliedAt: null, contract: null, machines: {} } as const;
  const status = clusterStatus(desired, emptyWorld(desired), lock, undefined);
  expect(status.labels).toEqual(labels);
  expect(statusPage(status)).toContain("; environment=production, team=&lt;web&gt;</p>");
  expect(statusPage({ ...status, labels: {} })).toMatch(/seen at [^;]*<\/p>/);
});
