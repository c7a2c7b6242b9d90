// Pools of workers, devices of their node, addresses of load balancers and the way out, on a real virtual cluster.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { apiOf, type Gpve } from "../support/gpve.ts";
import { endClustersOf } from "../support/left-clusters.ts";
import { outsideHost, type OutsideHost } from "../support/outside-host.ts";
import {
  cachedVersions,
  canRunClusters,
  components,
  ctl,
  kubectl as kubectlOf,
  pidOf,
  startWithComponents,
  type Said,
} from "../support/vclusters.ts";
import { until } from "../support/until.ts";

if (!canRunClusters)
  console.warn("SKIPPED: pools of virtual clusters need root and what vcluster.test.ts builds");

const IMAGE = "gpve.local/busybox:1";
const taint = { key: "dedicated", value: "build", effect: "NoSchedule" };
/** Described as a vendor's tool would, of devices that every machine has. */
const GPU = "example.com/gpu";
const described = `/var/run/cdi/gpve-pools-${process.pid}.json`;
const device = (name: string, hostPath: string) => ({
  name,
  containerEdits: { deviceNodes: [{ path: "/dev/fake-gpu", hostPath }], env: [`FAKE_GPU=${name}`] },
});
const devices = [device("zero", "/dev/zero"), device("full", "/dev/full")];
let gpve: Gpve;
let outside: OutsideHost;
/** Not in the data directory, which no storage may be in. */
const fast = (): string => `${gpve.data}-fast`;
const kubeconfig = (): string => join(gpve.data, "demo.kubeconfig");
const kubectl = (...argv: readonly string[]): Promise<Said> => kubectlOf(kubeconfig(), ...argv);

async function apply(object: object): Promise<void> {
  const [version = ""] = cachedVersions();
  await exec(join(components, "kubernetes", version, "kubectl"), ["apply", "-f", "-"], {
    env: { ...MINIMAL_ENV, KUBECONFIG: kubeconfig(), HOME: gpve.data },
    input: JSON.stringify(object),
    timeoutMs: 60_000,
  });
}

const pod = (name: string, command: string, more: object = {}) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, namespace: "default", labels: { app: name } },
  spec: {
    terminationGracePeriodSeconds: 0,
    containers: [{ name: "main", image: IMAGE, command: ["sh", "-c", command] }],
    ...more,
  },
});

/** What is said at an address of this machine's networks; undefined = nobody is there. */
function page(host: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect(80, host, () => socket.write("GET / HTTP/1.0\r\n\r\n"));
    let text = "";
    socket.on("data", (data) => (text += String(data)));
    socket.on("error", () => resolve(undefined));
    socket.on("end", () => resolve(text));
    socket.setTimeout(3_000, () => {
      socket.destroy();
      resolve(undefined);
    });
  });
}

describe.skipIf(!canRunClusters)("a virtual cluster with pools", () => {
  beforeAll(async () => {
    outside = await outsideHost("words from outside");
    mkdirSync("/var/run/cdi", { recursive: true, mode: 0o755 });
    writeFileSync(described, JSON.stringify({ cdiVersion: "0.5.0", kind: GPU, devices }), { mode: 0o644 });
    gpve = await startWithComponents();
    const small = { cpu: "500m", memory: "512Mi" };
    const more = { labels: { disk: "fast" }, taints: [taint], devices: { [GPU]: 1 } };
    const pools = [{ name: "build", count: 1, resources: small, ...more }];
    const body = {
      name: "demo",
      workerNodes: { count: 1, resources: small, pools },
      networking: { egress: "nat" },
      volumes: { storage: "fast" },
    };
    const api = apiOf(gpve.credentials, undefined, "/api/v1");
    const storage = { storage: "fast", type: "dir", path: fast(), content: "volumes" };
    const known = await apiOf(gpve.credentials)("POST", "/storage", storage);
    expect(known.status, known.text).toBe(200);
    const json = { "content-type": "application/json" };
    const made = await api("POST", "/vclusters?wait=true", {}, json, JSON.stringify(body));
    expect(made.status, made.text).toBe(201);
    const { kubeconfig: text } = JSON.parse(made.text) as { kubeconfig: string };
    writeFileSync(kubeconfig(), text, { mode: 0o600 });
  });
  afterAll(async () => {
    await endClustersOf(gpve.data);
    await gpve.stop();
    await outside.remove();
    rmSync(described, { force: true });
    rmSync(gpve.data, { recursive: true, force: true });
    rmSync(fast(), { recursive: true, force: true });
  });

  test("has workers with the labels and taints of their pool, which pods choose and tolerate", async () => {
    const { out } = await kubectl("get", "nodes", "-L", "disk,node.gpve.io/pool", "--no-headers");
    expect(out).toMatch(/^build-1 +Ready .* fast +build$/m);
    expect(out).toMatch(/^worker-1 +Ready /m);
    const nodeSelector = { disk: "fast" };
    await apply(pod("stranger", "exec sleep 1000000", { nodeSelector }));
    const tolerations = [{ key: "dedicated", operator: "Exists" }];
    await apply(pod("builder", "exec sleep 1000000", { nodeSelector, tolerations }));
    expect((await kubectl("wait", "pod/builder", "--for=condition=Ready", "--timeout=180s")).code).toBe(0);
    expect((await kubectl("get", "pod", "builder", "-o", "jsonpath={.spec.nodeName}")).out).toBe("build-1");
    const why = "jsonpath={.status.conditions[?(@.type=='PodScheduled')].reason}";
    await until("the stranger is refused", async () =>
      (await kubectl("get", "pod", "stranger", "-o", why)).out.includes("Unschedulable"),
    );
    await kubectl("delete", "pod/stranger");
  });

  test("gives a pod the device that is its worker's alone, and another waits until it is free", async () => {
    const resources = { limits: { [GPU]: "1" } };
    const tolerations = [{ key: "dedicated", operator: "Exists" }];
    const wants = (name: string) => {
      const plain = pod(name, "exec sleep 1000000", { tolerations });
      const containers = plain.spec.containers.map((main) => ({ ...main, resources }));
      return { ...plain, spec: { ...plain.spec, containers } };
    };
    await apply(wants("first"));
    expect((await kubectl("wait", "pod/first", "--for=condition=Ready", "--timeout=180s")).code).toBe(0);
    const look = "echo $FAKE_GPU; head -c 2 /dev/fake-gpu | od -An -tx1";
    const seen = async (name: string) =>
      (await kubectl("exec", name, "--", "sh", "-c", look)).out.split(/\s+/);
    expect(await seen("first")).toEqual(["zero", "00", "00", ""]);
    // Neither is what the worker does not have, nor what others of it did not ask for.
    expect((await kubectl("exec", "builder", "--", "ls", "/dev/fake-gpu")).code).toBe(1);
    const { spec } = wants("second");
    const labels = { app: "second" };
    const template = { metadata: { labels }, spec };
    await apply({
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "second" },
      spec: { selector: { matchLabels: labels }, template },
    });
    const why = "jsonpath={.items[*].status.conditions[?(@.type=='PodScheduled')].message}";
    await until("the second is told why it waits", async () =>
      (await kubectl("get", "pods", "-l", "app=second", "-o", why)).out.includes(`Insufficient ${GPU}`),
    );
    // A kubelet that begins anew has forgotten who offers devices. A pod that is bound to it before it hears of them is refused,
    // as everywhere, and its Deployment makes another.
    process.kill(pidOf(gpve, "demo.w1-kubelet"), "SIGKILL");
    await kubectl("delete", "pod/first");
    const available = ["deployment/second", "--for=condition=Available", "--timeout=180s"];
    expect((await kubectl("wait", ...available)).code).toBe(0);
    expect(await seen("deployment/second")).toEqual(["zero", "00", "00", ""]);
    await kubectl("delete", "deployment/second");
    const { err } = await ctl(gpve, "vc", "scale", "demo", "--pool", "build", "--workers", "3");
    expect(err).toContain(`its workers would have 3 ${GPU}, and the node offers 2`);
  }, 600_000);

  test("gives a Service of type LoadBalancer an address that answers on the node", async () => {
    const serves = "mkdir /tmp/w; echo balanced > /tmp/w/index.html; exec httpd -f -p 8080 -h /tmp/w";
    // On the worker that the node does not send it to.
    await apply(pod("web", serves, { nodeName: "build-1" }));
    await apply({
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "web", namespace: "default" },
      spec: { type: "LoadBalancer", selector: { app: "web" }, ports: [{ port: 80, targetPort: 8080 }] },
    });
    let address = "";
    await until("it has an address", async () => {
      const path = "jsonpath={.status.loadBalancer.ingress[0].ip}";
      address = (await kubectl("get", "service", "web", "-o", path)).out;
      return address !== "";
    });
    expect(address).toMatch(/^100\.8\d\.\d+\.210$/);
    await until("it answers", async () => (await page(address))?.includes("balanced") === true);
    const routes = async (): Promise<string> => (await exec("ip", ["-4", "route", "show"])).stdout;
    expect(await routes()).toContain(`${address} via`);
    await kubectl("delete", "service/web");
    await until("the way is gone", async () => !(await routes()).includes(`${address} via`));
    expect(await page(address)).toBeUndefined();
  });

  test("lets pods out by the node's ways, and to nothing of the node itself", async () => {
    const said = (address: string): Promise<Said> =>
      kubectl("exec", "builder", "--", "sh", "-c", `nc -w 3 ${address} ${outside.port} </dev/null; true`);
    expect((await said(outside.address)).out).toContain("words from outside");
    const came: string[] = [];
    const service = createServer((socket) => {
      came.push(socket.remoteAddress ?? "");
      socket.end();
    });
    await new Promise<void>((resolve) => {
      service.listen(outside.port, "0.0.0.0", resolve);
    });
    try {
      await said(outside.near);
      expect(came).toEqual([]);
    } finally {
      service.close();
    }
  });

  test("has its volumes on the storage that its spec names, also in a backup and what is made of it", async () => {
    const claim = {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { name: "data", namespace: "default" },
      spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "10Mi" } } },
    };
    const keeper = pod("keeper", "echo kept > /data/word; sleep 600", {
      volumes: [{ name: "v", persistentVolumeClaim: { claimName: "data" } }],
    });
    const [main] = keeper.spec.containers;
    const containers = [{ ...main, volumeMounts: [{ name: "v", mountPath: "/data" }] }];
    await apply(claim);
    await apply({ ...keeper, spec: { ...keeper.spec, containers } });
    const wait = ["wait", "--for=condition=Ready", "pod/keeper", "--timeout=120s"];
    expect((await kubectl(...wait)).code).toBe(0);
    const words = (): readonly string[] =>
      readdirSync(fast(), { recursive: true, encoding: "utf8" })
        .filter((path) => path.endsWith("/word"))
        .map((path) => readFileSync(join(fast(), path), "utf8"));
    await until("the word is on the storage", async () => words().length === 1);
    expect(words()).toEqual(["kept\n"]);
    expect(await ctl(gpve, "vc", "backup", "demo")).toMatchObject({ code: 0 });
    const { out } = await ctl(gpve, "vc", "backups", "demo");
    const [archive = ""] = /local:backup\/\S+/.exec(out) ?? [];
    const restore = ["vc", "restore", "copy", "--from", archive];
    expect(await ctl(gpve, ...restore)).toMatchObject({ code: 0 });
    expect(words()).toEqual(["kept\n", "kept\n"]);
    const deleted = await ctl(gpve, "vc", "delete", "copy", "--yes", "--volumes");
    expect(deleted.code, deleted.err).toBe(0);
    expect(words()).toEqual(["kept\n"]);
    expect((await kubectl("delete", "pod/keeper", "pvc/data")).code).toBe(0);
    await until("the volume is gone", async () => words().length === 0);
  }, 600_000);

  test("scales a pool alone", async () => {
    expect(await ctl(gpve, "vc", "scale", "demo", "--pool", "build", "--workers", "0")).toMatchObject({
      code: 0,
      out: expect.stringContaining("in pool build"),
    });
    const { out } = await kubectl("get", "nodes", "--no-headers");
    expect(out.trim().split("\n")).toEqual([expect.stringMatching(/^worker-1 +Ready/)]);
    expect((await ctl(gpve, "vc", "scale", "demo", "--pool", "other", "--workers", "1")).err).toContain(
      "there is no pool 'other'",
    );
  });
});
