import { expect, test } from "vitest";
import { minimalFile } from "../testing/test-cluster.ts";
import { readCluster } from "./parse-cluster.ts";

const read = (text: string, env: Readonly<Record<string, string>> = {}) => readCluster(text, env);

test("values come out of the environment, as if they had been written there", () => {
  const text = minimalFile
    .replace("name: prod", 'name: "${NAME}"')
    .replace("pools: [{ name: worker, count: 2 }]", "pools:\n  - name: worker\n    count: ${WORKERS}")
    .replace("{ vip: 10.0.0.9 }", "\n  vip: ${VIP:-10.0.0.8}")
    .replace("[pve1, pve2, pve3]", '[pve1, "$$$${pve2}", pve3]');
  const { cluster } = read(text, { NAME: "dev", WORKERS: "4" });
  expect(cluster?.metadata.name).toBe("dev");
  expect(cluster?.pools[0]?.count).toBe(4);
  expect(cluster?.endpoint.vip).toBe("10.0.0.8");
  expect(cluster?.providers[0]?.nodes[1]).toBe("${pve2}");
});

test("text in quotes stays text", () => {
  const found = read(minimalFile.replace("count: 2", 'count: "${WORKERS}"'), { WORKERS: "4" });
  expect(found).toMatchObject({ problems: [{ id: "value-wrong", key: "pools.0.count" }] });
});

test("what is not set is told with its place", () => {
  expect(read(minimalFile.replace("[pve1,", '["${FIRST}",'))).toEqual({
    cluster: undefined,
    problems: [
      {
        id: "environment-missing",
        line: 8,
        key: "providers.0.nodes.0",
        message: "needs the environment variable FIRST, which is not set",
      },
    ],
  });
});
