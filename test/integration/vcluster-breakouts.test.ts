// What Kubernetes allows whoever administers a cluster, used against the machine, the neighbours and the quota. Each way is
// tried on real workers, and each must end nowhere. The plain ones are in vcluster-workers.test.ts.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { connect, createServer, type Server } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { apiOf, type Api, type Gpve } from "../support/gpve.ts";
import { endClustersOf } from "../support/left-clusters.ts";
import {
  cachedVersions,
  canRunClusters,
  components,
  ctl,
  startWithComponents,
  type Said,
} from "../support/vclusters.ts";
import { until } from "../support/until.ts";

if (!canRunClusters)
  console.warn("SKIPPED: break-outs of virtual clusters need root and what vcluster.test.ts builds");

const IMAGE = "gpve.local/busybox:1";
const TENANT = "shop";
const FOREIGN = "words of the machine";
let gpve: Gpve;
/** A service of this machine, at every address that it has. */
let service: Server;
let port: number;
/** Those that came to it by its own address are ours; whoever else comes has broken out. */
const came: string[] = [];

const file = (name: string): string => join(gpve.data, `${name}.kubeconfig`);

async function kubectl(argv: readonly string[], input?: object, cluster = "hold"): Promise<Said> {
  const [version = ""] = cachedVersions();
  const { code, stdout, stderr } = await exec(join(components, "kubernetes", version, "kubectl"), argv, {
    env: { ...MINIMAL_ENV, KUBECONFIG: file(cluster), HOME: gpve.data },
    okCodes: Array.from({ length: 256 }, (_none, at) => at),
    timeoutMs: 200_000,
    ...(input === undefined ? {} : { input: JSON.stringify(input) }),
  });
  return { code, out: stdout, err: stderr };
}

const apply = (object: object, cluster?: string): Promise<Said> =>
  kubectl(["apply", "-f", "-"], object, cluster);

const pod = (name: string, command: string, more: object = {}, container: object = {}) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, namespace: "default", labels: { app: name } },
  spec: {
    terminationGracePeriodSeconds: 0,
    restartPolicy: "Never",
    containers: [{ name: "main", image: IMAGE, command: ["sh", "-c", command], ...container }],
    ...more,
  },
});

/** Addresses of a cluster on this machine, by its number. */
function placeOf(cluster: string): { gateway: string; api: string; worker: string; front: number } {
  const folder = join(gpve.data, "vclusters/clusters");
  const { network = -1 } =
    readdirSync(folder)
      .map((key) => readFileSync(join(folder, key, "cluster.json"), "utf8"))
      .map((text) => JSON.parse(text) as { name: string; called?: string; network: number })
      .find(({ name, called = name }) => called === cluster) ?? {};
  const subnet = `100.${80 + Math.floor(network / 256)}.${network % 256}`;
  return {
    gateway: `${subnet}.1`,
    api: `${subnet}.2`,
    worker: `${subnet}.10`,
    front: 16_443 + network,
  };
}

/** What the pod of the attacker gets from each of these; those that it gets nothing from are left out. */
async function reached(targets: readonly string[]): Promise<readonly string[]> {
  const tries = targets.map(
    (target) => `(nc -w 3 ${target.replace(":", " ")} </dev/null >/dev/null 2>&1 && echo ${target}) &`,
  );
  const { out } = await kubectl(["exec", "attacker", "--", "sh", "-c", `${tries.join(" ")} wait`]);
  return out.split("\n").filter(Boolean).toSorted();
}

/** /api/v1 as an administrator of the platform. */
function v1(method: string, path: string, body?: object): ReturnType<Api> {
  const api = apiOf(gpve.credentials, undefined, "/api/v1");
  if (body === undefined) return api(method, path);
  const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
  return api(method, path, {}, { "content-type": type }, JSON.stringify(body));
}

/** What a kubelet answers to whoever asks from the cluster's own network. */
function askKubelet(path: string, token?: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const options = { host: placeOf("hold").worker, port: 10_250, path, headers, rejectUnauthorized: false };
    request(options, (res) => {
      res.resume();
      resolve(res.statusCode ?? 0);
    })
      .on("error", reject)
      .end();
  });
}

function wordsAt(host: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, host);
    socket.on("data", (data) => {
      resolve(String(data));
      socket.destroy();
    });
    socket.on("error", reject);
    socket.setTimeout(5_000, () => socket.destroy(new Error("nobody answers")));
  });
}

describe.skipIf(!canRunClusters)("whoever administers a virtual cluster", () => {
  beforeAll(async () => {
    service = createServer((socket) => {
      came.push(socket.remoteAddress ?? "?");
      socket.on("error", () => undefined);
      socket.end(FOREIGN);
    });
    await new Promise<void>((resolve) => {
      service.listen(0, "0.0.0.0", resolve);
    });
    port = (service.address() as { port: number }).port;
    gpve = await startWithComponents();
    const made = async (path: string, kind: string, metadata: object, spec: object): Promise<void> => {
      const body = { apiVersion: "gpve.io/v1", kind, metadata, spec };
      expect(await v1("POST", path, body)).toMatchObject({ status: 201 });
    };
    await made("/tenants", "Tenant", { name: TENANT }, {});
    const limits = { vcCount: 1, cpu: 1, memory: "512Mi", storage: "20Mi" };
    await made("/resourcequotas", "ResourceQuota", { name: TENANT, namespace: TENANT }, { limits });
    const workerNodes = { count: 1, resources: { cpu: "1", memory: "512Mi" } };
    const [mine, other] = [
      { name: "hold", namespace: TENANT },
      { name: "other", namespace: "default" },
    ];
    for (const metadata of [mine, other])
      await made("/vclusters", "VirtualCluster", metadata, { workerNodes, quota: { storage: "20Mi" } });
    for (const { name } of [mine, other]) {
      await until(`${name} runs`, async () => {
        const { text } = await v1("GET", `/vclusters/${name}`);
        const { status } = JSON.parse(text) as { status: { phase: string } };
        if (status.phase === "Failed") throw new Error(text);
        return status.phase === "Running";
      });
      writeFileSync(file(name), (await ctl(gpve, "vc", "kubeconfig", name)).out, { mode: 0o600 });
    }
    const serves = `mkdir /tmp/w; echo secret of other > /tmp/w/index.html; exec httpd -f -p 8080 -h /tmp/w`;
    expect(await apply(pod("attacker", "exec sleep 1000000"))).toMatchObject({ code: 0 });
    expect(await apply(pod("web", serves), "other")).toMatchObject({ code: 0 });
    for (const [name, cluster] of [
      ["attacker", "hold"],
      ["web", "other"],
    ] as const)
      expect(
        await kubectl(["wait", `pod/${name}`, "--for=condition=Ready", "--timeout=180s"], undefined, cluster),
      ).toMatchObject({ code: 0 });
  });
  afterAll(async () => {
    service.close();
    await endClustersOf(gpve.data);
    await gpve.stop();
    rmSync(gpve.data, { recursive: true, force: true });
  });

  const volume = (source: object) => ({
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name: "v" },
    spec: { capacity: { storage: "1Gi" }, accessModes: ["ReadWriteOnce"], ...source },
  });
  /** As Kubernetes itself would have it: a worker that it is on. */
  const local = (path: string) => {
    const expression = { key: "kubernetes.io/hostname", operator: "Exists" };
    const required = { nodeSelectorTerms: [{ matchExpressions: [expression] }] };
    return volume({ local: { path }, nodeAffinity: { required } });
  };
  const inline = (source: object) => pod("p", "sleep 1", { volumes: [{ name: "v", ...source }] });
  const annotated = (annotations: object) => {
    const { metadata, ...rest } = pod("p", "sleep 1");
    return { ...rest, metadata: { ...metadata, annotations } };
  };
  const profile = (appArmorProfile: object) =>
    pod("p", "sleep 1", {}, { securityContext: { appArmorProfile } });
  test.each([
    ["other processes' memory", pod("p", "sleep 1", { hostIPC: true }), "hostIPC"],
    ["a static pod's mirror", annotated({ "kubernetes.io/config.mirror": "x" }), "mirror"],
    ["a static pod's source", annotated({ "kubernetes.io/config.source": "file" }), "static pods"],
    ["a driver's volume", inline({ csi: { driver: "x.example" } }), "volumes may"],
    ["a repository's volume", inline({ gitRepo: { repository: "x" } }), "volumes may"],
    ["a volume by a driver", volume({ csi: { driver: "x.example", volumeHandle: "x" } }), "are not offered"],
    ["a disk over the network", volume({ nfs: { server: "1.2.3.4", path: "/" } }), "are not offered"],
    ["a folder of the worker", local("/etc"), "claim one"],
    ["a folder above its volumes", local("/var/lib/kubelet/gpve-volumes/pvc-/../../../.."), ".."],
    ["a profile of the machine's", profile({ type: "Localhost", localhostProfile: "any" }), "AppArmor"],
    ["bare /proc", pod("p", "sleep 1", {}, { securityContext: { procMount: "Unmasked" } }), "procMount"],
  ])("gets no pod with %s", async (_what, object, why) => {
    const { code, err } = await apply(object);
    expect(code, err).toBe(1);
    expect(err).toContain(why);
  });

  test("gets none into a pod that runs either, nor onto a worker", async () => {
    const debug = (...argv: readonly string[]): Promise<Said> =>
      kubectl(["debug", ...argv, `--image=${IMAGE}`, "--", "sleep", "1"]);
    expect((await debug("attacker", "--profile=sysadmin")).err).toContain("privileged containers");
    expect((await debug("attacker", "--profile=netadmin")).err).toContain("capabilities that may be added");
    expect((await debug("node/worker-1")).err).toContain("hostNetwork, hostPID");
    const { out } = await kubectl(["get", "pod", "attacker", "-o", "jsonpath={.spec.ephemeralContainers}"]);
    expect(out).toBe("");
  });

  test("changes nothing of what belongs to the platform, whatever his role allows", async () => {
    const masters = ["--as=nobody", "--as-group=system:masters"];
    const refused = await kubectl(["get", "secrets", "-A", ...masters]);
    expect([refused.code === 0, refused.err]).toEqual([false, expect.stringContaining("system:masters")]);
    // Pods, and what guards them, would come from a server of his.
    const spec = { service: { namespace: "default", name: "mine" }, insecureSkipTLSVerify: true };
    for (const name of ["v1.", "v1.admissionregistration.k8s.io", "v1.node.k8s.io"]) {
      const led = await kubectl(["patch", "apiservice", name, "-p", JSON.stringify({ spec })]);
      expect([name, led.code === 0, led.err]).toEqual([name, false, expect.stringContaining("platform")]);
      const gone = await kubectl(["delete", "apiservice", name, "--wait=false"]);
      expect([name, gone.code === 0, gone.err]).toEqual([name, false, expect.stringContaining("platform")]);
    }
    const all = await kubectl(["delete", "--raw", "/apis/apiregistration.k8s.io/v1/apiservices"]);
    expect([all.code === 0, all.err]).toEqual([false, expect.stringContaining("platform")]);
    // What is his own stays his own.
    const own = {
      apiVersion: "apiregistration.k8s.io/v1",
      kind: "APIService",
      metadata: { name: "v1.shop.example" },
      spec: { group: "shop.example", version: "v1", groupPriorityMinimum: 1, versionPriority: 1, ...spec },
    };
    expect(await apply(own)).toMatchObject({ code: 0 });
    expect(await kubectl(["delete", "apiservice", "v1.shop.example"])).toMatchObject({ code: 0 });
  });

  test("gets from the kubelet's port what is his, and nothing of the machine", async () => {
    expect(await askKubelet("/pods")).toBe(401);
    const token = async (name: string): Promise<string> =>
      (await kubectl(["create", "token", name])).out.trim();
    expect(await askKubelet("/pods", await token("default"))).toBe(403);
    await kubectl(["create", "serviceaccount", "admin"]);
    await kubectl([
      "create",
      "clusterrolebinding",
      "admin",
      "--clusterrole=cluster-admin",
      "--serviceaccount=default:admin",
    ]);
    const admin = await token("admin");
    await until("his rights are known", async () => (await askKubelet("/pods", admin)) === 200);
    for (const path of ["/logs/", "/logs/syslog", "/debug/pprof/", "/debug/flags/v"])
      expect([path, await askKubelet(path, admin)]).not.toEqual([path, 200]);
    // The same by way of the API server.
    const by = (path: string) => kubectl(["get", "--raw", `/api/v1/nodes/worker-1/proxy${path}`]);
    for (const path of ["/logs/", "/debug/pprof/"]) expect((await by(path)).code).toBe(1);
    const { kubeletconfig } = JSON.parse((await by("/configz")).out) as {
      kubeletconfig: Record<string, unknown>;
    };
    expect(kubeletconfig).not.toHaveProperty("staticPodPath");
    expect(kubeletconfig).not.toHaveProperty("staticPodURL");
    const { out } = await kubectl(["get", "pods", "-A", "-o", "jsonpath={.items[*].metadata.annotations}"]);
    expect(out).not.toContain("config.mirror");
  });

  test("reaches from a pod neither the machine nor another cluster", async () => {
    const [own, other] = [placeOf("hold"), placeOf("other")];
    const addresses = (await exec("ip", ["-4", "-o", "address", "show"])).stdout.matchAll(
      /inet ([0-9.]+)\//g,
    );
    const host = [...addresses].map(([, address = ""]) => address).filter((each) => !each.startsWith("127."));
    const api = new URL(gpve.credentials.url).port;
    const foreign = [
      ...host.flatMap((each) => [port, Number(api), own.front, other.front].map((at) => `${each}:${at}`)),
      ...[6443, 10_250].flatMap((at) => [`${other.api}:${at}`, `${other.worker}:${at}`]),
      "169.254.169.254:80",
    ];
    // It can try: its own API server and kubelet are there.
    expect(await reached([...foreign, `${own.api}:6443`, `${own.worker}:10250`])).toEqual(
      [`${own.api}:6443`, `${own.worker}:10250`].toSorted(),
    );
    const { out: address } = await kubectl(
      ["get", "pod", "web", "-o", "jsonpath={.status.podIP}"],
      undefined,
      "other",
    );
    const page = await kubectl([
      "exec",
      "attacker",
      "--",
      "sh",
      "-c",
      `timeout 4 wget -T 3 -qO- http://${address}:8080`,
    ]);
    expect(page.out).not.toContain("secret of other");
    expect(came).toEqual([]);
  });

  test("reaches the machine by no detour of the cluster's own", async () => {
    const { gateway } = placeOf("hold");
    // Endpoints that are the machine's, behind a Service.
    const named = { name: "trap", namespace: "default" };
    const ports = [{ port, protocol: "TCP" }];
    await apply({ apiVersion: "v1", kind: "Service", metadata: named, spec: { ports } });
    await apply({
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: { ...named, labels: { "kubernetes.io/service-name": "trap" } },
      addressType: "IPv4",
      ports,
      endpoints: [{ addresses: [gateway], conditions: { ready: true } }],
    });
    const { out: vip } = await kubectl(["get", "service", "trap", "-o", "jsonpath={.spec.clusterIP}"]);
    expect(await reached([`${vip}:${port}`])).toEqual([]);
    expect(
      (await kubectl(["get", "--raw", `/api/v1/namespaces/default/services/trap:${port}/proxy/`])).code,
    ).toBe(1);
    // A worker that says it is the machine.
    await apply({ apiVersion: "v1", kind: "Node", metadata: { name: "trap" } });
    const status = { addresses: [{ type: "InternalIP", address: gateway }] };
    const patch = ["patch", "node", "trap", "--subresource=status", "--type=merge", "-p"];
    expect(await kubectl([...patch, JSON.stringify({ status })])).toMatchObject({ code: 0 });
    const asked = await kubectl(["get", "--raw", `/api/v1/nodes/http:trap:${port}/proxy/`]);
    expect(asked.code).toBe(1);
    expect(asked.out + asked.err).not.toContain(FOREIGN);
    // A hook that the API server calls.
    await apply({
      apiVersion: "admissionregistration.k8s.io/v1",
      kind: "ValidatingWebhookConfiguration",
      metadata: { name: "trap" },
      webhooks: [
        {
          name: "trap.example.org",
          clientConfig: { url: `https://${gateway}:${port}/` },
          rules: [
            { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["configmaps"] },
          ],
          sideEffects: "None",
          admissionReviewVersions: ["v1"],
          timeoutSeconds: 2,
          failurePolicy: "Fail",
        },
      ],
    });
    await until("the hook is called", async () =>
      (await kubectl(["create", "configmap", `c${Date.now()}`])).err.includes("trap.example.org"),
    );
    await kubectl(["delete", "validatingwebhookconfiguration/trap", "node/trap", "service/trap"]);
    expect(came).toEqual([]);
  });

  test("takes no port and no address of the machine's", async () => {
    const { gateway } = placeOf("hold");
    const ports = [{ containerPort: 8080, hostPort: port }];
    const serves = "mkdir /tmp/w; echo taken > /tmp/w/index.html; exec httpd -f -p 8080 -h /tmp/w";
    expect(await apply(pod("thief", serves, {}, { ports }))).toMatchObject({ code: 0 });
    await apply({
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "thief", namespace: "default" },
      spec: { selector: { app: "thief" }, externalIPs: [gateway], ports: [{ port, targetPort: 8080 }] },
    });
    expect((await kubectl(["wait", "pod/thief", "--for=condition=Ready", "--timeout=180s"])).code).toBe(0);
    // It has the port of its worker, and only that.
    await until(
      "the worker has it",
      async () => (await reached([`${placeOf("hold").worker}:${port}`])).length === 1,
    );
    for (const host of ["127.0.0.1", gateway]) expect(await wordsAt(host)).toBe(FOREIGN);
  });

  test("gets no more volumes than he was given, though he changes what they say", async () => {
    const claim = (name: string, storage: string) => ({
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { name, namespace: "default" },
      spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage } } },
    });
    const user = (name: string) =>
      pod(name, "exec sleep 1000000", {
        volumes: [{ name: "v", persistentVolumeClaim: { claimName: name } }],
      });
    for (const object of [claim("first", "15Mi"), user("first")])
      expect(await apply(object)).toMatchObject({ code: 0 });
    expect((await kubectl(["wait", "pod/first", "--for=condition=Ready", "--timeout=180s"])).code).toBe(0);
    const { out: name } = await kubectl(["get", "pv", "-o", "jsonpath={.items[0].metadata.name}"]);
    await kubectl(["patch", "pv", name, "--type=merge", "-p", '{"spec":{"capacity":{"storage":"1Mi"}}}']);
    for (const object of [claim("second", "15Mi"), user("second")])
      expect(await apply(object)).toMatchObject({ code: 0 });
    await until("he is told", async () =>
      (await kubectl(["get", "events", "-o", "jsonpath={.items[*].reason}"])).out.includes("QuotaExceeded"),
    );
    expect((await kubectl(["get", "pvc", "second", "-o", "jsonpath={.status.phase}"])).out).toBe("Pending");
    await kubectl(["delete", "pod/first", "pod/second", "pvc/first", "pvc/second"]);
  });

  test("gets no more than his quota, whatever his workers say they have", async () => {
    const more = await ctl(gpve, "vc", "create", "more", "--tenant", TENANT);
    expect(more).toMatchObject({ code: expect.any(Number), err: expect.stringMatching(/quota/i) });
    expect(more.code).not.toBe(0);
    const scaled = await ctl(gpve, "vc", "scale", "hold", "--workers", "2");
    expect(scaled.err).toMatch(/quota/i);
    const patched = await v1("PATCH", "/vclusters/hold", { spec: { workerNodes: { count: 2 } } });
    expect(patched.status).toBeGreaterThanOrEqual(400);
    expect(patched.text).toMatch(/quota|cannot be changed/i);
    const status = { capacity: { cpu: "64", memory: "900Gi" }, allocatable: { cpu: "64", memory: "900Gi" } };
    const patch = ["patch", "node", "worker-1", "--subresource=status", "--type=merge", "-p"];
    expect(await kubectl([...patch, JSON.stringify({ status })])).toMatchObject({ code: 0 });
    // Twice what the worker has: whoever takes it is ended.
    expect(await apply(pod("greedy", "dd if=/dev/zero of=/dev/null bs=1024M count=1"))).toMatchObject({
      code: 0,
    });
    const reason = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}";
    await until("the greedy one has ended", async () =>
      /^\d+$/.test((await kubectl(["get", "pod", "greedy", "-o", reason])).out),
    );
    expect((await kubectl(["get", "pod", "greedy", "-o", reason])).out).not.toBe("0");
    expect((await kubectl(["exec", "attacker", "--", "echo", "alive"])).out).toContain("alive");
  });
});
