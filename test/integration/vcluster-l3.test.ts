// Workers of level L3 on real components: each is a machine with a kernel of its own, made from Debian's packages. Emulated
// they take minutes, so this is part of the long run. Where this machine has two minors, they go from one to the next.
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { release } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defaultImageCache } from "../support/build-caches.ts";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { goSettings } from "../support/go-settings.ts";
import { apiOf, startGpve, type Gpve } from "../support/gpve.ts";
import { endClustersOf, leftOfClusters } from "../support/left-clusters.ts";
import {
  cachedVersions,
  canRunClusters,
  components,
  ctl,
  kubectl as kubectlOf,
  type Said,
} from "../support/vclusters.ts";
import { page } from "../support/page.ts";

const isWanted = process.env["GPVE_VC_MACHINES"] === "1";
if (!isWanted)
  console.warn(
    "SKIPPED: workers that are machines take minutes: part of ./gpve test --long (GPVE_VC_MACHINES=1)",
  );
else if (!canRunClusters)
  console.warn("SKIPPED: workers that are machines need root and what vcluster.test.ts builds");

const [newest = "", ...others] = cachedVersions();
const minorOf = (version: string): number => Number(version.split(".")[1]);
const before = others.find((version) => minorOf(version) === minorOf(newest) - 1);
if (isWanted && before === undefined)
  console.warn(
    `SKIPPED: machines go from one minor to the next where the one before ${newest} is cached: gpvectl component install kubernetes 1.${minorOf(newest) - 1}`,
  );

const IMAGE = "gpve.local/busybox:1";
const LONG_MS = 600_000;
let gpve: Gpve;
const kubeconfig = (): string => join(gpve.data, "demo.kubeconfig");
const kubectl = (...argv: readonly string[]): Promise<Said> => kubectlOf(kubeconfig(), ...argv);
const place = (): string => join(gpve.data, "vclusters/clusters/demo");

async function apply(...items: readonly object[]): Promise<Said> {
  const [version = ""] = cachedVersions();
  const { code, stdout, stderr } = await exec(
    join(components, "kubernetes", version, "kubectl"),
    ["apply", "-f", "-"],
    {
      env: { ...MINIMAL_ENV, KUBECONFIG: kubeconfig(), HOME: gpve.data },
      input: JSON.stringify({ apiVersion: "v1", kind: "List", items }),
      timeoutMs: 60_000,
      okCodes: [0, 1],
    },
  );
  return { code, out: stdout, err: stderr };
}

async function until(what: string, done: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + LONG_MS;
  while (!(await done())) {
    if (performance.now() > end) throw new Error(`not within ten minutes: ${what}`);
    await sleep(500);
  }
}

const pod = (name: string, command: string, more: object = {}, container: object = {}) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, namespace: "default", labels: { app: name } },
  spec: {
    terminationGracePeriodSeconds: 0,
    containers: [{ name: "main", image: IMAGE, command: ["sh", "-c", command], ...container }],
    ...more,
  },
});
const SERVES = "mkdir /tmp/w; hostname > /tmp/w/index.html; echo serving; exec httpd -f -p 8080 -h /tmp/w";

const writer = (name: string, command: string) =>
  pod(
    name,
    command,
    { volumes: [{ name: "data", persistentVolumeClaim: { claimName: "data" } }] },
    { volumeMounts: [{ name: "data", mountPath: "/data" }] },
  );
const word = async (name: string): Promise<string> =>
  (await kubectl("exec", name, "--", "cat", "/data/word")).out.trim();

async function ready(name: string): Promise<void> {
  const waited = await kubectl("wait", `pod/${name}`, "--for=condition=Ready", "--timeout=280s");
  if (waited.code !== 0) console.info((await kubectl("describe", "pod", name)).out.slice(-3_000));
  expect(waited.code).toBe(0);
}

const nodeReady = async (name: string): Promise<boolean> =>
  new RegExp(`^${name} +Ready `, "m").test((await kubectl("get", "nodes", "--no-headers")).out);

async function vnodes(): Promise<readonly Record<string, unknown>[]> {
  const answer = await apiOf(gpve.credentials, undefined, "/api/v1")("GET", "/vclusters/demo");
  return (JSON.parse(answer.text) as { status: { vnodes: Record<string, unknown>[] } }).status.vnodes;
}

function machinePid(slot: number): number {
  try {
    const state = readFileSync(join(gpve.data, `vclusters/run/guests/demo.w${slot}-machine/state`), "utf8");
    return (JSON.parse(state) as { pid: number }).pid;
  } catch {
    return 0; // it is being started
  }
}

/** Cards of machines on the cluster's bridge. */
function taps(): readonly string[] {
  const { network } = JSON.parse(readFileSync(join(place(), "cluster.json"), "utf8")) as { network: number };
  return readdirSync("/sys/class/net").filter((name) => name.startsWith(`vcw${network}x`));
}

describe.skipIf(!isWanted || !canRunClusters)("a virtual cluster whose workers are machines", () => {
  beforeAll(async () => {
    const env = {
      GPVE_COMPONENTS: components,
      GPVE_IMAGE_CACHE: defaultImageCache(process.env),
      HOME: process.env["HOME"] ?? "/",
      ...goSettings(),
    };
    gpve = await startGpve({ env });
    const began = Date.now();
    const body = {
      name: "demo",
      isolationLevel: "L3",
      kubernetesVersion: before ?? newest,
      workerNodes: { count: 1, resources: { cpu: "2", memory: "1Gi" } },
    };
    const json = { "content-type": "application/json" };
    const api = apiOf(gpve.credentials, undefined, "/api/v1");
    const made = await api("POST", "/vclusters?wait=true", {}, json, JSON.stringify(body));
    if (made.status !== 201) console.info((await ctl(gpve, "vc", "logs", "demo")).out.slice(-4_000));
    expect(made.status, made.text).toBe(201);
    console.info(`a cluster with one machine is Ready after ${((Date.now() - began) / 1000).toFixed(1)} s`);
    const { kubeconfig: text } = JSON.parse(made.text) as { kubeconfig: string };
    writeFileSync(kubeconfig(), text, { mode: 0o600 });
  }, 45 * 60_000);
  afterAll(async () => {
    await endClustersOf(gpve.data);
    await gpve.stop();
    rmSync(gpve.data, { recursive: true, force: true });
  });

  test("has a worker with a kernel of its own, and says what runs it", async () => {
    const path = "jsonpath={.items[*].status.nodeInfo.kernelVersion}";
    const { out } = await kubectl("get", "nodes", "-o", path);
    expect(out).toMatch(/-cloud-amd64$/);
    expect(out).not.toBe(release());
    expect(await nodeReady("worker-1")).toBe(true);
    expect(await vnodes()).toMatchObject([
      { name: "worker-1", running: true, accelerator: expect.stringMatching(/^(?:kvm|tcg)$/) },
    ]);
    const pid = machinePid(0);
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    expect(Number(/^Uid:\s+(\d+)/m.exec(status)?.[1])).toBeGreaterThan(0x4000_0000);
    expect(readFileSync(`/proc/${pid}/cmdline`, "utf8")).not.toMatch(/PRIVATE KEY|certificate-authority/);
    expect(taps()).toHaveLength(1);
  });

  test(
    "runs a pod from an image that nobody pulls; exec, logs and the mapping answer",
    async () => {
      const began = Date.now();
      await apply(pod("web", SERVES));
      await ready("web");
      console.info(`a pod is Ready after ${((Date.now() - began) / 1000).toFixed(1)} s`);
      expect((await kubectl("exec", "web", "--", "uname", "-r")).out).toMatch(/-cloud-amd64\n$/);
      expect((await kubectl("logs", "web")).out).toContain("serving");
      const api = apiOf(gpve.credentials, undefined, "/api/v1");
      await until(
        "it is mapped",
        async () => (await api("GET", "/vclusters/demo/pods/web/mapping")).status === 200,
      );
      const mapped = await api("GET", "/vclusters/demo/pods/web/mapping");
      expect(JSON.parse(mapped.text)).toMatchObject({ vnode: "worker-1", vcluster: "demo" });
    },
    LONG_MS,
  );

  test("keeps the guard of every level", async () => {
    const evil = pod("evil", "sleep 60", {}, { securityContext: { privileged: true } });
    expect(await apply(evil)).toMatchObject({ code: 1, err: expect.stringContaining("privileged") });
  });

  test(
    "serves claims from its own disk, and keeps what is in them when their pods go",
    async () => {
      const claim = {
        apiVersion: "v1",
        kind: "PersistentVolumeClaim",
        metadata: { name: "data", namespace: "default" },
        spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "64Mi" } } },
      };
      await apply(claim, writer("writes", "echo kept > /data/word; sync; exec sleep 1000000"));
      await ready("writes");
      await until("it is written", async () => (await word("writes")) === "kept");
      await kubectl("delete", "pod/writes");
      await apply(writer("reads", "exec sleep 1000000"));
      await ready("reads");
      expect(await word("reads")).toBe("kept");
      const [volume = ""] = readdirSync(join(place(), "vnodes/worker-1/asked"));
      expect(volume).toMatch(/^pvc-/);
      // Nothing of it is a folder of the node.
      expect(existsSync(join(place(), "vnodes/worker-1/kubelet"))).toBe(false);
      const saved = await ctl(gpve, "vc", "backup", "demo");
      expect(saved.code).not.toBe(0);
      expect(saved.err).toContain("disks of its machines (level L3)");
    },
    LONG_MS,
  );

  test(
    "has load balancers that answer on the node",
    async () => {
      await apply({
        apiVersion: "v1",
        kind: "Service",
        metadata: { name: "out", namespace: "default" },
        spec: { type: "LoadBalancer", selector: { app: "web" }, ports: [{ port: 80, targetPort: 8080 }] },
      });
      const path = "jsonpath={.status.loadBalancer.ingress[0].ip}";
      let address = "";
      await until("it has an address", async () => {
        address = (await kubectl("get", "service", "out", "-o", path)).out;
        return address !== "";
      });
      await until("it answers", async () => (await page(address)).includes("web"));
    },
    LONG_MS,
  );

  test(
    "runs on while the agent is killed, and is found again",
    async () => {
      const pid = machinePid(0);
      await gpve.kill();
      expect((await kubectl("exec", "web", "--", "echo", "still here")).out).toContain("still here");
      gpve = await gpve.restart();
      expect(machinePid(0)).toBe(pid);
      await until("its pods are told again", async () => Number((await vnodes())[0]?.["pods"] ?? 0) >= 1);
      // What the node has to say to a machine goes by the same line.
      await kubectl("delete", "node", "worker-1");
      await until("worker-1 is Ready again", () => nodeReady("worker-1"));
      expect(machinePid(0)).toBe(pid);
      // A kubelet that has just come does not know its pods yet.
      await until(
        "exec answers",
        async () => (await kubectl("exec", "web", "--", "echo", "well")).code === 0,
      );
    },
    LONG_MS,
  );

  test(
    "sleeps while its pods run on, and wakes",
    async () => {
      const pid = machinePid(0);
      expect((await ctl(gpve, "vc", "sleep", "demo")).code).toBe(0);
      expect(machinePid(0)).toBe(pid);
      expect((await kubectl("exec", "web", "--", "echo", "awake")).out).toContain("awake");
      expect(machinePid(0)).toBe(pid);
    },
    LONG_MS,
  );

  test(
    "grows: pods on two machines and the control plane reach each other by names; and shrinks",
    async () => {
      expect((await ctl(gpve, "vc", "scale", "demo", "--workers", "2")).code).toBe(0);
      expect(await nodeReady("worker-2")).toBe(true);
      await apply(pod("asks", "exec sleep 1000000", { nodeName: "worker-2" }), {
        apiVersion: "v1",
        kind: "Service",
        metadata: { name: "web", namespace: "default" },
        spec: { selector: { app: "web" }, ports: [{ port: 80, targetPort: 8080 }] },
      });
      await ready("asks");
      await until("the pod on the other machine answers by its name", async () =>
        (
          await kubectl("exec", "asks", "--", "wget", "-qO-", "http://web.default.svc.cluster.local")
        ).out.startsWith("web"),
      );
      // The API server goes to pods by the same ways.
      const path = "/api/v1/namespaces/default/pods/web:8080/proxy/";
      await until(
        "the control plane reaches it",
        async () => (await kubectl("get", "--raw", path)).out === "web\n",
      );
      await kubectl("delete", "pod/asks");
      expect((await ctl(gpve, "vc", "scale", "demo", "--workers", "1")).code).toBe(0);
      expect(readdirSync(join(place(), "vnodes"))).toEqual(["worker-1"]);
      expect(taps()).toHaveLength(1);
      expect((await leftOfClusters(gpve.data)).filter((line) => line.includes("w1-machine"))).toEqual([]);
    },
    LONG_MS * 2,
  );

  test(
    "comes back with its pods when its machine is lost, and when it is stopped and started",
    async () => {
      const pid = machinePid(0);
      process.kill(pid, "SIGKILL");
      await until("another machine runs", async () => ![0, pid].includes(machinePid(0)));
      const runs = async (): Promise<boolean> =>
        (await kubectl("exec", "web", "--", "echo", "again")).out.includes("again");
      await until("the pod runs again", runs);
      await until("what was written is there still", async () => (await word("reads")) === "kept");
      expect((await ctl(gpve, "vc", "stop", "demo")).code).toBe(0);
      expect(taps()).toEqual([]);
      expect(existsSync(join(gpve.data, "vclusters/run/guests/demo.w0-machine"))).toBe(false);
      expect((await ctl(gpve, "vc", "start", "demo")).code).toBe(0);
      await until("the pod runs once more", runs);
    },
    LONG_MS * 2,
  );

  test.skipIf(before === undefined)(
    "goes to the next minor with another machine on the same disk",
    async () => {
      const pid = machinePid(0);
      const said = await ctl(gpve, "vc", "upgrade", "demo", "--to", newest);
      console.info(said.err);
      expect(said.code).toBe(0);
      expect([0, pid]).not.toContain(machinePid(0));
      const { out } = await kubectl("get", "nodes", "--no-headers");
      expect(out).toMatch(new RegExp(`^worker-1 +Ready .*v${newest.replaceAll(".", "\\.")}$`, "m"));
      await until("what was written is there still", async () => (await word("reads")) === "kept");
    },
    LONG_MS * 2,
  );

  test(
    "takes a volume away with its claim",
    async () => {
      await kubectl("delete", "pod/reads", "pvc/data", "--wait=false");
      const volumes = async (): Promise<string> => (await kubectl("get", "pv", "-o", "name")).out;
      await until("nobody has it any more", async () => (await volumes()) === "");
      expect(readdirSync(join(place(), "vnodes/worker-1/asked"))).toEqual([]);
    },
    LONG_MS,
  );

  test(
    "goes without a trace",
    async () => {
      expect(await ctl(gpve, "vc", "delete", "demo", "--yes")).toMatchObject({ code: 0 });
      await expect.poll(() => leftOfClusters(gpve.data), { timeout: 60_000 }).toEqual([]);
      expect(existsSync(place())).toBe(false);
    },
    LONG_MS,
  );
});
