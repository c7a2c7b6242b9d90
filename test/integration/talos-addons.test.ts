// Add-ons of a Talos cluster on a real Kubernetes API, a virtual cluster's: order, gates, kinds that others define, and
// what goes when it is no longer in them.
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { defaultComponentFolder } from "../support/build-caches.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { exec } from "@gpve/kit/exec.ts";
import { AddonStore } from "@gpve/talos/addon/addon-store.ts";
import { ClusterAddons } from "@gpve/talos/addon/cluster-addons.ts";
import { prepareAddons } from "@gpve/talos/addon/prepare-addons.ts";
import { OpenCluster } from "@gpve/talos/engine/open-cluster.ts";
import { readLock } from "@gpve/talos/folder/lock-file.ts";
import type { Kubernetes } from "@gpve/talos/kubernetes/kubernetes.ts";
import { openKubernetes } from "@gpve/talos/kubernetes/open-kubernetes.ts";
import { stepName } from "@gpve/talos/plan/plan-steps.ts";
import { testBundle } from "@gpve/talos/testing/test-bundle.ts";
import { testCluster } from "@gpve/talos/testing/test-cluster.ts";
import { mainFile, nodeBinary, startGpve, type Gpve } from "../support/gpve.ts";
import { endClustersOf } from "../support/left-clusters.ts";

const isRoot = process.getuid?.() === 0;
const components = defaultComponentFolder(process.env);
const isCached = (() => {
  try {
    return readdirSync(join(components, "kubernetes")).some((name) => name.startsWith("1."));
  } catch {
    return false;
  }
})();
const canRun = isRoot && isCached;
if (!canRun)
  console.warn(
    "SKIPPED: add-ons on a real Kubernetes need root, and Kubernetes in the cache: the test of virtual clusters builds it",
  );

const START_MS = 300_000;
const thing = "apiVersion: gpve.test/v1\nkind: Wombat\nmetadata: { name: fred }\nspec: { size: 1 }\n";
const kinds = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: wombatz.gpve.test }
spec:
  group: gpve.test
  scope: Cluster
  names: { plural: wombatz, singular: wombat, kind: Wombat }
  versions:
    - name: v1
      served: true
      storage: true
      schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } }
`;
const web = (replicas: number, more = "") => `${more}apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  replicas: ${replicas}
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec:
      containers: [{ name: web, image: "web:1" }]
      volumes: [{ name: v, secret: { secretName: s, defaultMode: 0440, optional: true } }]
`;
const settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: settings }\n---\n";

describe.skipIf(!canRun)("add-ons on a real API", () => {
  let gpve: Gpve;
  let kubernetes: Kubernetes;
  const folder = mkdtempSync(join(tmpdir(), "gpve-talos-addons-"));

  async function ctl(...argv: readonly string[]): Promise<string> {
    const { stdout } = await exec(nodeBinary, [mainFile, "ctl", "--data", gpve.data, ...argv], {
      timeoutMs: START_MS,
    });
    return stdout;
  }

  async function addons(version: string) {
    const extra = ["kinds", "things", "web"].map((name) => ({
      name,
      namespace: "apps",
      manifest: `${name}.yaml`,
      version,
    }));
    const cluster = testCluster({
      pools: [],
      addons: {
        cni: { type: "none" },
        ccm: { proxmox: { enabled: false }, talos: { enabled: false } },
        metricsServer: false,
        monitoring: { prometheusCRDs: false },
        policies: { podSecurity: "restricted", defaultDeny: true },
        csi: { localStorage: {}, default: "localStorage" },
        extra,
      },
    });
    const { addons: prepared, findings } = await prepareAddons({
      cluster,
      folder,
      store: new AddonStore(folder, "prod"),
      exec,
      now: Date.now,
      fetch: () => Promise.reject(new Error("nothing is fetched")),
    });
    expect(findings).toEqual([]);
    const all = new ClusterAddons({
      addons: prepared,
      clock: systemClock,
      provideAccount: () => Promise.resolve(),
    });
    return { cluster, all };
  }

  async function open(version: string): Promise<{ cluster: OpenCluster; all: ClusterAddons }> {
    const { cluster, all } = await addons(version);
    const place = { file: "cluster.yaml", folder, text: "", cluster, machines: [], patches: new Map() };
    const lines: unknown[] = [];
    const opened = new OpenCluster({
      place: { ...place, lock: readLock(folder, "prod") },
      secrets: await testBundle(),
      secretsFile: join(folder, "secrets"),
      drivers: new Map(),
      talos: {
        member: () => Promise.reject(new Error("no machine")),
        stranger: () => Promise.reject(new Error("no machine")),
      },
      kubernetes,
      clock: systemClock,
      journal: { append: (line) => void lines.push(line), lines: () => [] },
      prepareImage: async (url) => url,
      keepSnapshot: () => Promise.reject(new Error("no etcd")),
      addons: all,
    });
    return { cluster: opened, all };
  }

  beforeAll(async () => {
    gpve = await startGpve({ env: { GPVE_COMPONENTS: components, HOME: process.env["HOME"] ?? "/" } });
    await ctl("vc", "create", "addons", "--workers", "0", "--wait");
    const config = parse(await ctl("vc", "kubeconfig", "addons")) as {
      clusters: { cluster: { server: string; "certificate-authority-data": string } }[];
      users: { user: { "client-certificate-data": string; "client-key-data": string } }[];
    };
    const [{ cluster } = { cluster: undefined }] = config.clusters;
    const [{ user } = { user: undefined }] = config.users;
    kubernetes = openKubernetes({
      server: cluster?.server ?? "",
      ca: cluster?.["certificate-authority-data"] ?? "",
      crt: user?.["client-certificate-data"] ?? "",
      key: user?.["client-key-data"] ?? "",
    });
  }, START_MS);
  afterAll(async () => {
    kubernetes?.close();
    await endClustersOf(gpve.data);
    await gpve.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test(
    "are applied in order, each when the one before is well, and are nothing to do after",
    async () => {
      for (const [name, text] of Object.entries({ kinds, things: thing, web: web(0, settings) }))
        writeFileSync(join(folder, `${name}.yaml`), text);
      const { cluster } = await open("1");
      const { steps, findings } = await cluster.apply({ only: "addons" });
      expect(findings).toEqual([]);
      expect(steps.map(stepName)).toEqual(
        ["pod-security", "local-storage", "network-policies", "kinds", "things", "web"].map(
          (name) => `addon.apply ${name}`,
        ),
      );
      const wombat = { apiVersion: "gpve.test/v1", kind: "Wombat", metadata: { name: "fred" } };
      expect(await kubernetes.read(wombat)).toMatchObject({ spec: { size: 1 } });
      const deployment = {
        apiVersion: "apps/v1",
        kind: "Deployment",
        metadata: { name: "web", namespace: "apps" },
      };
      expect(JSON.stringify(await kubernetes.read(deployment))).toContain('"defaultMode":288');
      const again = await (await open("1")).cluster.apply({ only: "addons" });
      expect(again.steps).toEqual([]);
    },
    START_MS,
  );

  test(
    "a rollout that does not complete keeps the gate shut; what is no longer in it goes",
    async () => {
      writeFileSync(join(folder, "web.yaml"), web(1));
      const { all } = await open("2");
      for (const name of ["kinds", "things", "web"]) await all.apply(kubernetes, name);
      const seen = await all.seen(kubernetes);
      // There is no node that it could run on.
      expect(seen.get("web")).toMatchObject({ isHealthy: false });
      expect(seen.get("kinds")).toMatchObject({ isHealthy: true });
      const old = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings", namespace: "apps" } };
      expect(await kubernetes.read(old)).toBeUndefined();
    },
    START_MS,
  );
});
