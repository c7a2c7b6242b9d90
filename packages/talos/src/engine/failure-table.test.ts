// What never comes about while a cluster is made: each is told by its finding, and nothing is taken away in despair.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { AppError } from "@gpve/contracts/errors.ts";
import type { Send } from "../kubernetes/kubernetes.ts";
import { RestKubernetes } from "../kubernetes/rest-kubernetes.ts";
import { FakeWorld } from "../testing/fake-world.ts";
import { ClusterEtcd } from "../testing/stand-in/cluster-etcd.ts";
import { openedCluster } from "../testing/opened-cluster.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";
import type { ClusterDeps } from "./open-cluster.ts";

let folder: string;
let world: FakeWorld;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-talos-failures-"));
  world = new FakeWorld();
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true, force: true });
});

async function apply(more: Partial<ClusterDeps> = {}) {
  const opened = openedCluster(world, {
    folder,
    cluster: testCluster(),
    secrets: await testBundle(),
    keepSnapshot: () => Promise.reject(new Error("there is nothing to keep")),
    ...more,
  });
  return opened.apply();
}

/** Answers of the API, changed on their way. */
function changed(change: (body: unknown) => unknown): ClusterDeps["kubernetes"] {
  const send: Send = async (request) => {
    const reply = await world.fakeKubernetes.send(request);
    return { ...reply, body: change(reply.body) };
  };
  return new RestKubernetes(send);
}

const unready = (body: unknown): unknown =>
  JSON.parse(JSON.stringify(body).replaceAll('"status":"True"', '"status":"False"'));

const realJoin = Reflect.get(ClusterEtcd.prototype, "join") as (
  hostname: string,
  isUp: () => boolean,
) => void;

test.each<[string, string, () => Partial<ClusterDeps>]>([
  [
    "a machine that never gets its address",
    "machine-silent",
    () => {
      world.unreachable.add("prod-worker-2");
      return {};
    },
  ],
  [
    "another machine at an address of ours",
    "machine-foreign",
    () => ({
      talos: {
        member: (machine) => world.talos.member(machine),
        stranger: async (machine) => ({
          ...(await world.talos.stranger(machine)),
          resource: async () => ({ uuid: "11111111-2222-3333-4444-555555555555" }),
        }),
      },
    }),
  ],
  [
    "etcd that does not begin",
    "etcd-not-begun",
    () => ({
      talos: {
        ...world.talos,
        member: async (machine) => ({
          ...(await world.talos.member(machine)),
          bootstrap: () => Promise.resolve(),
        }),
      },
    }),
  ],
  [
    "a control plane that does not join etcd",
    "etcd-not-joined",
    () => {
      vi.spyOn(ClusterEtcd.prototype, "join").mockImplementation(function join(this: ClusterEtcd, ...args) {
        if (args[0] === "prod-cp-1") realJoin.apply(this, args);
      });
      return {};
    },
  ],
  [
    "an API server that does not answer",
    "kubernetes-silent",
    () => ({ kubernetes: new RestKubernetes(async () => ({ status: 503, body: {} })) }),
  ],
  ["nodes that are not ready", "node-not-ready", () => ({ kubernetes: changed(unready) })],
  [
    "an add-on that does not become well",
    "addon-unhealthy",
    () => ({
      addons: {
        wanted: [{ name: "web", isNetwork: false, digest: "1" }],
        apply: () => Promise.resolve(),
        seen: async () => new Map(),
      },
    }),
  ],
  [
    "a platform that says it started a guest and did not",
    "step-without-effect",
    () => {
      const handle = world.platform.handle.bind(world.platform);
      world.platform.handle = (verb, path, values) =>
        path.endsWith("/3001/status/start") ? null : handle(verb, path, values);
      return {};
    },
  ],
])("%s is %s", async (_what, finding, fault) => {
  const told = await apply(fault()).then(
    ({ findings }) => findings[0]?.id,
    (err: unknown) => (err as AppError).data["finding"],
  );
  expect(told).toBe(finding);
  expect(world.platform.done.filter((call) => /^DELETE|\/status\/stop$/.test(call))).toEqual([]);
  expect(world.platform.guests.size).toBe(5);
  expect(world.quorumLosses).toBe(0);
  expect(world.clusters.all.length).toBeLessThanOrEqual(1);
  expect(world.clusters.all[0]?.bootstraps ?? 0).toBeLessThanOrEqual(1);
});
