import { expect, test } from "vitest";
import type { NodeView } from "@gpve/domain/node/runtime.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import { createAuthority, createKeyPair, issue, SERVER_ROLE } from "@gpve/kit/pki/x509.ts";
import { shapeProblems } from "@gpve/kit/testing/response-shape.ts";
import { createConfigHandlers } from "../cluster/config-handlers.ts";
import { createNodeReadHandlers } from "./node-read-handlers.ts";

const ctx = {} as RequestContext;
const FINGERPRINT = Array.from({ length: 32 }, () => "AB").join(":");
/** An agent's certificate is another than that of the API. */
const API_OF_N2 = Array.from({ length: 32 }, () => "CD").join(":");
const views = [
  { node: "n1", nodeid: 1, address: "192.0.2.1", certFingerprint: FINGERPRINT },
  { node: "n2", nodeid: 2, address: "192.0.2.2", certFingerprint: FINGERPRINT },
] as NodeView[];
const board = {
  list: () => views,
  get: (node: string) => views.find((view) => view.node === node),
  generation: () => 1,
};
const fingerprintOf = (node: string): string => (node === "n2" ? API_OF_N2 : FINGERPRINT);
const NOW = Date.UTC(2026, 0, 1);
const authority = await createAuthority("home", NOW);
const pair = await createKeyPair();
const certPem = await issue(authority, pair.keys.publicKey, {
  commonName: "n1",
  role: SERVER_ROLE,
  names: ["n1", "192.0.2.1"],
  days: 365,
  now: NOW,
});
const removed: string[] = [];
const removeNode = (node: string): Promise<void> => {
  removed.push(node);
  return Promise.resolve();
};
const handlers = createNodeReadHandlers({
  configs: { show: () => ({}), update: () => Promise.resolve(), wake: () => Promise.resolve("") },
  localNode: "n1",
  fingerprintOf,
  caPem: () => authority.certPem,
  certPem: () => `${certPem}\n${authority.certPem}`,
});

test("shows the certificates a node answers with, and of another node what is known", () => {
  const info = handlers["GET /nodes/{node}/certificates/info"];
  const own = info?.({ node: "n1" }, ctx) as Record<string, unknown>[];
  expect(shapeProblems(methodByKey("GET /nodes/{node}/certificates/info")?.returns ?? {}, own)).toEqual([]);
  expect(own[0]).toMatchObject({ filename: "pve-root-ca.pem", subject: own[0]?.["issuer"], san: [] });
  expect(own[1]).toMatchObject({
    filename: "pve-ssl.pem",
    subject: expect.stringMatching(/\/CN=n1$/),
    issuer: own[0]?.["subject"],
    san: ["n1", "192.0.2.1"],
    "public-key-type": "id-ecPublicKey",
    "public-key-bits": 256,
  });
  expect(own[1]?.["pem"]).toMatch(/^-----BEGIN CERTIFICATE-----\n[^-]*-----END CERTIFICATE-----\n$/);
  expect(Number(own[1]?.["notafter"]) - Number(own[1]?.["notbefore"])).toBeGreaterThan(364 * 86_400);
  expect(info?.({ node: "n2" }, ctx)).toMatchObject([
    { filename: "pve-root-ca.pem" },
    {
      filename: "pve-ssl.pem",
      fingerprint: API_OF_N2,
    },
  ]);
});

test("there are no templates of containers", () => {
  expect(handlers["GET /nodes/{node}/aplinfo"]?.({ node: "n1" }, ctx)).toEqual([]);
});

test("a lone node has no cluster to show; a cluster shows its nodes, and lets them go", async () => {
  const alone = createConfigHandlers({
    board,
    fingerprintOf,
    removeNode,
    localNode: "n1",
    clusterName: undefined,
  });
  expect(alone["GET /cluster/config/nodes"]?.({}, ctx)).toEqual([]);
  expect(alone["GET /cluster/config/totem"]?.({}, ctx)).toEqual({});
  expect(alone["GET /cluster/config/qdevice"]?.({}, ctx)).toEqual({});
  expect(() => alone["GET /cluster/config/join"]?.({}, ctx)).toThrow(
    expect.objectContaining({ message: "node is not in a cluster, no join info available!", pveStatus: 424 }),
  );
  const together = createConfigHandlers({
    board,
    fingerprintOf,
    removeNode,
    localNode: "n1",
    clusterName: "home",
  });
  expect(together["GET /cluster/config/totem"]?.({}, ctx)).toMatchObject({ cluster_name: "home" });
  expect(together["GET /cluster/config/nodes"]?.({}, ctx)).toEqual([
    { node: "n1", name: "n1", nodeid: "1", quorum_votes: "1", ring0_addr: "192.0.2.1" },
    { node: "n2", name: "n2", nodeid: "2", quorum_votes: "1", ring0_addr: "192.0.2.2" },
  ]);
  expect(await together["DELETE /cluster/config/nodes/{node}"]?.({ node: "n2" }, ctx)).toBeNull();
  expect(removed).toEqual(["n2"]);
  expect(together["GET /cluster/config/apiversion"]?.({}, ctx)).toBe(1);
  const join = together["GET /cluster/config/join"];
  expect(join?.({}, ctx)).toMatchObject({
    config_digest: expect.stringMatching(/^[0-9a-f]{40}$/) as string,
    preferred_node: "n1",
    nodelist: [
      { name: "n1", nodeid: "1", pve_addr: "192.0.2.1" },
      { name: "n2", nodeid: "2", pve_fp: API_OF_N2 },
    ],
    totem: { cluster_name: "home" },
  });
  expect(join?.({ node: "n2" }, ctx)).toMatchObject({ preferred_node: "n2" });
  expect(() => join?.({ node: "n9" }, ctx)).toThrow("node 'n9' does not exist in cluster");
});
