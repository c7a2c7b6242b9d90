// Add-ons from their sources to a fake cluster: order, locks, gates, accounts.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { PveDriver } from "../driver/pve-driver.ts";
import { PveshCalls } from "../driver/pvesh-calls.ts";
import type { KubernetesObject } from "../kubernetes/kubernetes.ts";
import { RestKubernetes } from "../kubernetes/rest-kubernetes.ts";
import { FakeKubernetes } from "../testing/fake-kubernetes.ts";
import { FakePlatform, fakePvesh } from "../testing/fake-platform.ts";
import { instantClock } from "../testing/instant-clock.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { addonCatalogue, wantedAddons } from "./addon-catalogue.ts";
import { AddonStore } from "./addon-store.ts";
import { ClusterAddons, objectName } from "./cluster-addons.ts";
import { type PrepareDeps, prepareAddons } from "./prepare-addons.ts";
import { podEndpoint } from "./pod-endpoint.ts";
import { provideAccount } from "./provide-account.ts";
import { redactedObject } from "./redacted-object.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-addons-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const off = {
  cni: { type: "none" },
  ccm: { proxmox: { enabled: false }, talos: { enabled: false } },
  metricsServer: false,
  monitoring: { prometheusCRDs: false },
};
const web = (image = "web:1", replicas = 2) => `apiVersion: v1
kind: ConfigMap
metadata: { name: settings }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  replicas: ${replicas}
  template: { spec: { containers: [{ name: web, image: "${image}", args: [a] }], volumes: [{ secret: { defaultMode: 0644 } }] } }
---
apiVersion: v1
kind: List
items:
  - { apiVersion: v1, kind: ServiceAccount, metadata: { name: web } }
`;
const refuse = () => Promise.reject(new Error("no network"));
const noHelm: Exec = () =>
  Promise.reject(new AppError("feature.unsupported", "cannot run helm: it is not installed"));

function prepare(addons: object, more: Partial<PrepareDeps> = {}) {
  const cluster = testCluster({ addons: { ...off, ...addons } });
  const store = new AddonStore(folder, "prod");
  return prepareAddons({ cluster, folder, store, exec: noHelm, now: () => 0, fetch: refuse, ...more });
}
const own = (more: object = {}) => ({
  extra: [{ name: "web", namespace: "apps", manifest: "web.yaml", ...more }],
});
const write = (name: string, text: string) => writeFileSync(join(folder, name), text);

describe("the catalogue", () => {
  const adjusted = (name: string, object: KubernetesObject, addons: object = {}): KubernetesObject => {
    const kind = addonCatalogue.find((each) => each.name === name);
    return kind?.adjust?.(object, testCluster({ addons })) ?? object;
  };
  const pods = (kind: string, args?: readonly string[]): KubernetesObject => ({
    apiVersion: "apps/v1",
    kind,
    metadata: { name: "x" },
    spec: { template: { spec: { containers: [{ name: "x", args }] } } },
  });

  test("lets Proxmox' controller know new nodes where Talos' one is not there to", () => {
    const made = pods("Deployment", ["--v=4", "--controllers=cloud-node-lifecycle"]);
    expect(adjusted("proxmox-ccm", made)).toEqual(made);
    expect(adjusted("proxmox-ccm", made, { ccm: { talos: { enabled: false } } })).toEqual(
      pods("Deployment", ["--v=4", "--controllers=cloud-node,cloud-node-lifecycle"]),
    );
  });

  test("lets the network's pods run before a controller knows the nodes", () => {
    for (const kind of ["Deployment", "Job"]) {
      expect(adjusted("cilium", pods(kind))).toMatchObject({
        spec: {
          template: { spec: { tolerations: [{ key: "node.cloudprovider.kubernetes.io/uninitialized" }] } },
        },
      });
    }
    // A job of other pods takes no other's place.
    const names = [pods("Job"), pods("Job", ["a"])].map((job) => adjusted("cilium", job).metadata.name);
    expect(new Set(names).size).toBe(2);
    expect(names[0]).toMatch(/^x-[0-9a-f]{8}$/);
    expect(adjusted("cilium", pods("Job"), { ccm: off.ccm })).toEqual(pods("Job"));
  });

  test("has a name, a version and a source or objects for each, and the order of needs", () => {
    const names = addonCatalogue.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    for (const { source, objects, version } of addonCatalogue) {
      expect(source !== undefined || objects !== undefined).toBe(true);
      expect(version).not.toBe("");
      if (source !== undefined) expect(source.from).toContain("{version}");
    }
    const everything = testCluster({
      addons: {
        cni: { type: "cilium" },
        loadBalancer: { type: "metallb", addresses: ["10.0.0.200-10.0.0.220"] },
        ingress: { type: "gateway" },
        csi: {
          proxmox: {},
          nfs: { server: "nas", share: "/v" },
          ceph: {},
          localPath: {},
          localStorage: {},
          default: "nfs",
        },
        gitops: { flux: { repo: "https://git/x.git" }, argocd: { repo: "https://git/y.git", path: "apps" } },
        monitoring: { kubePrometheusStack: true },
        logging: { type: "efk" },
        policies: {
          defaultDeny: true,
          podSecurity: "restricted",
          rbac: [{ kind: "ClusterRole", metadata: { name: "x" } }],
        },
      },
    });
    const wanted = wantedAddons(everything).map(({ name }) => name);
    expect(wanted).toEqual(names.filter((name) => !["traefik", "loki"].includes(name)));
    const objects = wantedAddons(everything).flatMap((kind) => kind.objects?.(everything) ?? []);
    expect(objects.map(objectName)).toEqual(
      expect.arrayContaining([
        "v1 Namespace default",
        "rbac.authorization.k8s.io/v1 ClusterRole x",
        "monitoring.coreos.com/v1 PodMonitor kube-system/proxmox-cloud-controller-manager",
        "metallb.io/v1beta1 IPAddressPool metallb-system/default",
        "storage.k8s.io/v1 StorageClass local-storage",
        "kustomize.toolkit.fluxcd.io/v1 Kustomization flux-system/prod",
        "argoproj.io/v1alpha1 Application argocd/prod",
        "networking.k8s.io/v1 NetworkPolicy default/default-deny",
      ]),
    );
    const defaults = objects.filter(
      ({ kind, metadata }) =>
        kind === "StorageClass" && JSON.stringify(metadata).includes('is-default-class":"true"'),
    );
    expect(defaults.map(({ metadata }) => metadata.name)).toEqual(["nfs"]);
  });

  test("Cilium announces addresses and serves gateways when asked", () => {
    const cluster = testCluster({
      network: { nodeCIDR: "10.0.0.0/24", gateway: "10.0.0.1", mtu: 1400 },
      addons: {
        cni: { type: "cilium", values: { debug: { enabled: true } } },
        loadBalancer: { type: "cilium", addresses: ["10.0.0.200-10.0.0.220", "10.1.0.0/28"] },
        ingress: { type: "gateway" },
      },
    });
    const kinds = wantedAddons(cluster);
    expect(kinds.find(({ name }) => name === "cilium")?.values?.(cluster)).toMatchObject({
      k8sServicePort: 7445,
      MTU: 1400,
      l2announcements: { enabled: true },
      gatewayAPI: { enabled: true },
      debug: { enabled: true },
    });
    expect(kinds.find(({ name }) => name === "load-balancer")?.objects?.(cluster)[0]).toMatchObject({
      spec: { blocks: [{ start: "10.0.0.200", stop: "10.0.0.220" }, { cidr: "10.1.0.0/28" }] },
    });
  });
});

describe("sources", () => {
  test("a manifest is read as Kubernetes reads it, placed and ordered", async () => {
    write("web.yaml", web());
    const { addons, findings } = await prepare(own());
    expect(findings).toEqual([]);
    expect(addons[0]?.objects.map(objectName)).toEqual([
      "v1 Namespace apps",
      "v1 ServiceAccount apps/web",
      "v1 ConfigMap apps/settings",
      "apps/v1 Deployment apps/web",
    ]);
    expect(JSON.stringify(addons[0]?.objects)).toContain('"defaultMode":420');
  });

  test("are held to version and checksum at the first fetch, also where they are gone later", async () => {
    write("web.yaml", web());
    const first = await prepare(own());
    write("web.yaml", web("web:2"));
    const second = await prepare(own());
    expect(second.addons[0]?.digest).toBe(first.addons[0]?.digest);
    rmSync(join(folder, "web.yaml"));
    const third = await prepare(own(), { fetch: undefined });
    expect(third.addons[0]?.digest).toBe(first.addons[0]?.digest);
    const lock = new AddonStore(folder, "prod").locked();
    expect(lock["web"]).toMatchObject({ version: "1", kind: "manifest", source: "web.yaml" });
    // What was kept is lost, and the source has changed: it is not taken.
    rmSync(join(folder, ".deployer/prod/addons", lock["web"]?.sha256 ?? ""));
    write("web.yaml", web("web:2"));
    expect((await prepare(own())).findings).toMatchObject([{ id: "addon-changed", subject: "web" }]);
    // Another version is asked for by the file itself.
    const asked = await prepare(own({ version: "2" }));
    expect(asked.findings).toEqual([]);
    expect(asked.addons[0]?.version).toBe("2");
  });

  test("come from a mirror, from a folder without a network, or from where the file says", async () => {
    const asked: string[] = [];
    const fetch = async (url: string) => {
      asked.push(url);
      return Buffer.from(web());
    };
    const mirrors = {
      "https://github.com": "https://files.example.org/gh",
      "https://github.com/x": "https://other.example.org",
    };
    await prepare({ metricsServer: true, mirrors }, { fetch });
    expect(asked).toEqual([
      "https://files.example.org/gh/kubernetes-sigs/metrics-server/releases/download/v0.8.0/components.yaml",
    ]);
    rmSync(join(folder, ".deployer"), { recursive: true });
    mkdirSync(join(folder, "offline"));
    write("offline/metrics-server-v0.7.2.yaml", web());
    const offline = { metricsServer: true, offlineDir: "offline", versions: { "metrics-server": "v0.7.2" } };
    const { addons } = await prepare(offline);
    expect(addons).toMatchObject([{ version: "v0.7.2", source: "offline/metrics-server-v0.7.2.yaml" }]);
    expect(JSON.stringify(addons[0]?.objects)).toContain("--kubelet-insecure-tls");
    write("mine.yaml", web());
    const sources = { "metrics-server": { manifest: "mine.yaml", sha256: "0".repeat(64) } };
    rmSync(join(folder, ".deployer"), { recursive: true });
    expect((await prepare({ metricsServer: true, sources })).findings).toMatchObject([
      { id: "addon-changed" },
    ]);
  });

  test.each([
    ["addon-unreachable", { metricsServer: true }, {}],
    ["addon-unreachable", { metricsServer: true }, { fetch: undefined }],
    ["addon-broken", { metricsServer: true }, { fetch: async () => Buffer.from("<html>log in</html>") }],
    ["addon-broken", { metricsServer: true }, { fetch: async () => Buffer.from("a: [") }],
    ["helm-missing", { cni: { type: "cilium" } }, { fetch: async () => Buffer.from("tgz") }],
    [
      "addon-broken",
      { cni: { type: "cilium" } },
      {
        fetch: async () => Buffer.from("tgz"),
        exec: () => Promise.reject(new AppError("operation.failed", "helm ended with 1")),
      },
    ],
  ])("%s is told, and nothing is locked", async (id, addons, more) => {
    const { findings } = await prepare(addons, more);
    expect(findings).toMatchObject([{ id, severity: "error" }]);
    expect(new AddonStore(folder, "prod").locked()).toEqual({});
  });

  test("charts are rendered by helm with values from stdin, once for the same inputs", async () => {
    const runs: { args: readonly string[]; input: string }[] = [];
    const exec: Exec = async (program, args, options) => {
      expect(program).toBe("helm");
      expect(readFileSync(args[2] ?? "", "utf8")).toBe("tgz");
      runs.push({ args, input: String(options?.input) });
      return { code: 0, stdout: web(`web:${runs.length}`), stderr: "" };
    };
    const more = { exec, fetch: async () => Buffer.from("tgz") };
    const cni = { cni: { type: "cilium" }, values: { cilium: { password: "hush" } } };
    const first = await prepare(cni, more);
    expect(first.findings).toEqual([]);
    const second = await prepare(cni, more);
    expect(second.addons[0]?.digest).toBe(first.addons[0]?.digest);
    expect(runs).toHaveLength(1);
    expect(runs[0]?.args.join(" ")).toContain("--namespace kube-system --include-crds");
    expect(runs[0]?.args.join(" ")).not.toContain("hush");
    expect(runs[0]?.input).toContain("hush");
    await prepare({ ...cni, values: { cilium: { password: "other" } } }, more);
    expect(runs).toHaveLength(2);
  });

  test("a lock that cannot be read is not overwritten", async () => {
    write("web.yaml", web());
    await prepare(own());
    const path = join(folder, ".deployer/prod/addons/addon-lock.json");
    writeFileSync(path, "{");
    expect((await prepare(own())).findings).toMatchObject([{ id: "lock-damaged" }]);
    expect(readFileSync(path, "utf8")).toBe("{");
  });
});

describe("in a cluster", () => {
  const fake = new FakeKubernetes({ kubelets: () => [], isUp: () => true });
  const kubernetes = new RestKubernetes(fake.send);
  beforeEach(() => {
    fake.objects.clear();
    fake.broken.clear();
  });
  const clusterAddons = async (addons: object) => {
    const { addons: prepared } = await prepare(addons);
    const provideAccount = () => Promise.resolve();
    return new ClusterAddons({ addons: prepared, clock: instantClock(), provideAccount });
  };

  test("are seen only when all of it was applied and is well; what is no longer in them goes", async () => {
    write("web.yaml", web());
    const first = await clusterAddons(own());
    expect([...(await first.seen(kubernetes)).keys()]).toEqual([]);
    fake.broken.add("web");
    await first.apply(kubernetes, "web");
    const digest = first.wanted[0]?.digest ?? "";
    expect((await first.seen(kubernetes)).get("web")).toEqual({ digest, isHealthy: false });
    fake.broken.clear();
    await first.apply(kubernetes, "web");
    expect((await first.seen(kubernetes)).get("web")).toEqual({ digest, isHealthy: true });
    write("web.yaml", web().split("---").slice(1).join("---"));
    const next = await clusterAddons(own({ version: "2" }));
    expect((await next.seen(kubernetes)).get("web")).toEqual({ digest, isHealthy: false });
    await next.apply(kubernetes, "web");
    expect([...fake.objects.keys()].some((path) => path.includes("configmaps/settings"))).toBe(false);
    expect([...fake.objects.keys()]).toContain("/api/v1/namespaces/apps");
    await expect(next.apply(kubernetes, "nothing")).rejects.toThrow("no add-on");
  });

  test("kinds come first and are waited for; what needs them later is not a failure yet", async () => {
    const crd = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: things.example.org }
`;
    write("web.yaml", `apiVersion: example.org/v1\nkind: Thing\nmetadata: { name: a }\n---\n${crd}`);
    const addons = await clusterAddons(own());
    fake.broken.add("things.example.org");
    await expect(addons.apply(kubernetes, "web")).rejects.toMatchObject({ code: "resource.busy" });
    fake.broken.clear();
    await addons.apply(kubernetes, "web");
    expect((await addons.seen(kubernetes)).get("web")?.isHealthy).toBe(true);
    const missing = new RestKubernetes(async (request) =>
      request.path.includes("example.org/v1") ? { status: 404, body: { message: "no" } } : fake.send(request),
    );
    await expect(addons.apply(missing, "web")).rejects.toMatchObject({ code: "resource.busy" });
  });

  test("kinds that others define are spelled as the API says", async () => {
    const asked: string[] = [];
    const api = new RestKubernetes(async (request) => {
      asked.push(`${request.method} ${request.path}`);
      const resources = [
        { name: "policies/status", kind: "Policy", namespaced: true },
        { name: "policiez", kind: "Policy", namespaced: false },
      ];
      return { status: 200, body: request.method === "GET" ? { resources } : {} };
    });
    const object = { apiVersion: "example.org/v1", kind: "Policy", metadata: { name: "x" } };
    await api.apply(object);
    await api.delete(object);
    expect(asked).toEqual([
      "GET /apis/example.org/v1",
      "PATCH /apis/example.org/v1/policiez/x?fieldManager=gpve-talos&force=true",
      "DELETE /apis/example.org/v1/policiez/x",
    ]);
  });

  test("an account has just what its add-on needs, and its secret is in the cluster alone", async () => {
    const platform = new FakePlatform();
    const drivers = new Map([["pve", new PveDriver("pve", new PveshCalls(fakePvesh(platform)))]]);
    const ccm = addonCatalogue.find(({ name }) => name === "proxmox-ccm");
    if (ccm === undefined) throw new Error("no CCM");
    const cluster = testCluster();
    const done = () => provideAccount(cluster, drivers, kubernetes, ccm);
    await done();
    expect(platform.accounts.roles.get("talos-proxmox-ccm")).toBe("VM.Audit,VM.GuestAgent.Audit,Sys.Audit");
    expect([...platform.accounts.grants]).toEqual([
      "/vms talos-proxmox-ccm talos-prod@pve",
      "/vms talos-proxmox-ccm talos-prod@pve!proxmox-ccm",
      "/nodes talos-proxmox-ccm talos-prod@pve",
      "/nodes talos-proxmox-ccm talos-prod@pve!proxmox-ccm",
    ]);
    const path = "/api/v1/namespaces/kube-system/secrets/proxmox-cloud-controller-manager";
    expect(JSON.stringify(fake.objects.get(path))).toContain("token_secret: secret-1");
    expect(JSON.stringify(fake.objects.get(path))).toContain("url: https://192.0.2.1:8006/api2/json");
    // There already: no other token is made.
    await done();
    expect([...platform.accounts.tokens.values()]).toEqual(["secret-1"]);
    fake.objects.clear();
    platform.version = "8.4.1";
    await done();
    expect(platform.accounts.roles.get("talos-proxmox-ccm")).toBe("VM.Audit,VM.Monitor,Sys.Audit");
    expect([...platform.accounts.tokens.values()]).toEqual(["secret-2"]);
    fake.objects.clear();
    const given = testCluster({ addons: { ccm: { proxmox: { credentials: "given" } } } });
    await expect(provideAccount(given, drivers, kubernetes, ccm)).rejects.toMatchObject({
      data: { finding: "addon-account" },
    });
    const forbidden = new PveDriver("pve", {
      isRoot: false,
      read: () => Promise.reject(new AppError("access.denied", "Permission check failed")),
      work: () => Promise.resolve(),
      make: () => Promise.resolve(null),
      upload: () => Promise.resolve(),
      close: () => undefined,
    });
    await expect(
      provideAccount(cluster, new Map([["pve", forbidden]]), kubernetes, ccm),
    ).rejects.toMatchObject({ code: "access.denied", data: { finding: "addon-account" } });
  });

  test.each<[string, object, string | undefined, string, boolean]>([
    [
      "a name",
      { endpoint: "https://pve.example.org:8006/" },
      undefined,
      "https://pve.example.org:8006",
      false,
    ],
    [
      "a pinned certificate",
      { endpoint: "https://10.0.0.2", tls: { fingerprint: "a" } },
      "",
      "https://10.0.0.2",
      true,
    ],
    [
      "an authority of one's own",
      { endpoint: "https://10.0.0.2", tls: { caFile: "a" } },
      "",
      "https://10.0.0.2",
      true,
    ],
    ["this machine", { endpoint: "https://127.0.0.1:8006" }, "10.0.0.2", "https://10.0.0.2:8006", true],
    ["this machine by IPv6", { endpoint: "https://[::1]:444" }, "fd00::2", "https://[fd00::2]:444", true],
    ["no address", {}, "10.0.0.2", "https://10.0.0.2:8006", true],
  ])("pods reach a platform given by %s", async (_what, given, address, url, isInsecure) => {
    const [provider] = testCluster().providers;
    if (provider === undefined) throw new Error("no provider");
    const { tls = {}, ...more } = given as { tls?: object };
    const whole = { ...provider, ...more, tls: { ...provider.tls, ...tls } };
    expect(await podEndpoint(whole, { address: async () => address })).toEqual({ url, isInsecure });
  });

  test("what Secrets hold is not shown", () => {
    const secret = { apiVersion: "v1", kind: "Secret", metadata: { name: "s" } };
    expect(redactedObject({ ...secret, stringData: { a: "hush" }, data: { b: "aHVzaA==" } })).toEqual({
      ...secret,
      stringData: { a: "(hidden)" },
      data: { b: "(hidden)" },
    });
    expect(redactedObject({ ...secret, kind: "ConfigMap", data: { a: "b" } })).toMatchObject({
      data: { a: "b" },
    });
  });
});
