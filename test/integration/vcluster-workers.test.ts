// Workers of a virtual cluster on real Kubernetes, containerd and runc: pods, Services, names, exec, logs; what a tenant may
// not do; loss, scaling and the end. The components are built once, into the cache of this machine.
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defaultComponentFolder } from "../support/build-caches.ts";
import { given } from "@gpve/contracts/given.ts";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { apiOf, mainFile, nodeBinary, startGpve, type Gpve } from "../support/gpve.ts";
import { goSettings } from "../support/go-settings.ts";
import { endClustersOf, leftOfClusters } from "../support/left-clusters.ts";
import { until } from "../support/until.ts";

const isRoot = process.getuid?.() === 0;
const BUILD_MS = 45 * 60_000;
const components = defaultComponentFolder(process.env);
const canBuild = await exec("nice", ["go", "version"], {
  env: { ...MINIMAL_ENV, PATH: `/usr/local/go/bin:${MINIMAL_ENV["PATH"] ?? ""}` },
}).then(
  () => true,
  () => false,
);
const isCached = ["kubernetes", "containerd", "cni-plugins", "coredns"].every((name) =>
  existsSync(join(components, name)),
);
const canRun = isRoot && (canBuild || isCached);
if (!canRun)
  console.warn(
    "SKIPPED: workers of virtual clusters need root, and components: install Go 1.21 or newer, or import them (docs/reference/components.md)",
  );

let gpve: Gpve;
const kubeconfig = (): string => join(gpve.data, "demo.kubeconfig");
const place = (): string => join(gpve.data, "vclusters/clusters/demo");

interface Said {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

async function ctl(...argv: readonly string[]): Promise<Said> {
  const { code, stdout, stderr } = await exec(nodeBinary, [mainFile, "ctl", "--data", gpve.data, ...argv], {
    timeoutMs: BUILD_MS,
    okCodes: Array.from({ length: 131 }, (_none, at) => at),
  });
  return { code, out: stdout, err: stderr };
}

async function kubectl(argv: readonly string[], input?: string): Promise<Said> {
  const { version } = JSON.parse(readFileSync(join(place(), "cluster.json"), "utf8")) as { version: string };
  const { code, stdout, stderr } = await exec(join(components, "kubernetes", version, "kubectl"), argv, {
    env: { ...MINIMAL_ENV, KUBECONFIG: kubeconfig(), HOME: gpve.data },
    okCodes: Array.from({ length: 131 }, (_none, at) => at),
    timeoutMs: 200_000,
    ...given({ input }),
  });
  return { code, out: stdout, err: stderr };
}

const apply = (objects: readonly object[]): Promise<Said> =>
  kubectl(["apply", "-f", "-"], JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }));

const IMAGE = "gpve.local/busybox:1";
const podSpec = (command: string) => ({
  terminationGracePeriodSeconds: 1,
  containers: [{ name: "main", image: IMAGE, command: ["sh", "-c", command] }],
});
const web = [
  {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "web", namespace: "default" },
    spec: {
      replicas: 2,
      selector: { matchLabels: { app: "web" } },
      template: {
        metadata: { labels: { app: "web" } },
        spec: {
          ...podSpec(
            "mkdir /tmp/w; hostname > /tmp/w/index.html; echo serving; exec httpd -f -p 8080 -h /tmp/w",
          ),
          topologySpreadConstraints: [
            {
              maxSkew: 1,
              topologyKey: "kubernetes.io/hostname",
              whenUnsatisfiable: "ScheduleAnyway",
              labelSelector: { matchLabels: { app: "web" } },
            },
          ],
        },
      },
    },
  },
  {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "web", namespace: "default" },
    spec: { selector: { app: "web" }, ports: [{ port: 80, targetPort: 8080 }] },
  },
];

describe.skipIf(!canRun)("workers of a virtual cluster", () => {
  beforeAll(async () => {
    gpve = await startGpve({
      env: { GPVE_COMPONENTS: components, HOME: process.env["HOME"] ?? "/", ...goSettings() },
    });
  });
  afterAll(async () => {
    await endClustersOf(gpve.data);
    await gpve.stop();
    rmSync(gpve.data, { recursive: true, force: true });
  });

  test(
    "are made with the cluster, and are Ready",
    async () => {
      const made = await ctl("vc", "create", "demo", "--workers", "2", "--wait");
      expect(made).toMatchObject({ code: 0, out: expect.stringContaining("demo runs Kubernetes 1.") });
      console.info(made.err);
      writeFileSync(kubeconfig(), (await ctl("vc", "kubeconfig", "demo")).out, { mode: 0o600 });
      const { out } = await kubectl(["get", "nodes", "--no-headers"]);
      expect(out.match(/^worker-[12] +Ready /gm)).toHaveLength(2);
    },
    BUILD_MS,
  );

  test("run a Deployment from an image that nobody pulls; its Service and names answer", async () => {
    expect((await apply(web)).err).toBe("");
    const rolled = await kubectl(["rollout", "status", "deployment/web", "--timeout=180s"]);
    expect(rolled.out).toContain("successfully rolled out");
    const names = await kubectl([
      "rollout",
      "status",
      "deployment/coredns",
      "-n",
      "kube-system",
      "--timeout=180s",
    ]);
    expect(names.out).toContain("successfully rolled out");
    const asked = () =>
      kubectl(["exec", "deploy/web", "--", "wget", "-qO-", "http://web.default.svc.cluster.local"]);
    // By its name and by its address, from a pod; both pods answer, so packets go from worker to worker.
    const answers = new Set<string>();
    await until("both pods answer", async () => {
      const { out } = await asked();
      if (out.startsWith("web-")) answers.add(out.trim());
      return answers.size === 2;
    });
    const own = await kubectl([
      "exec",
      "deploy/web",
      "--",
      "nslookup",
      "kubernetes.default.svc.cluster.local",
    ]);
    expect(own.out).toContain("10.96.0.1");
    const log = await kubectl(["logs", "deploy/web"]);
    expect(log.out).toContain("serving");
    const { out: pod } = await kubectl([
      "get",
      "pods",
      "-l",
      "app=web",
      "-o",
      "jsonpath={.items[0].metadata.name}",
    ]);
    const { out: worker } = await kubectl(["get", "pod", pod, "-o", "jsonpath={.spec.nodeName}"]);
    const api = apiOf(gpve.credentials, undefined, "/api/v1");
    const mapped = await api("GET", `/vclusters/demo/pods/${pod}/mapping`);
    expect(JSON.parse(mapped.text)).toMatchObject({ vnode: worker, vcluster: "demo", nodeUsage: {} });
    const { node } = JSON.parse(mapped.text) as { node: string };
    expect((await api("GET", `/nodes/${node}/pods`)).text).toContain(pod);
  });

  test("give a claim a volume that outlives its pod, and no longer than the claim", async () => {
    const claim = {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { name: "data", namespace: "default" },
      spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "10Mi" } } },
    };
    const pod = (name: string, command: string) => {
      const { containers, ...spec } = podSpec(command);
      return {
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name, namespace: "default" },
        spec: {
          ...spec,
          restartPolicy: "Never",
          containers: containers.map((each) => ({
            ...each,
            volumeMounts: [{ name: "v", mountPath: "/data" }],
          })),
          volumes: [{ name: "v", persistentVolumeClaim: { claimName: "data" } }],
        },
      };
    };
    const ends = (name: string): Promise<Said> =>
      kubectl(["wait", `pod/${name}`, "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s"]);
    await apply([claim, pod("writes", "echo kept > /data/word")]);
    expect((await ends("writes")).code).toBe(0);
    await apply([pod("reads", "cat /data/word")]);
    expect((await ends("reads")).code).toBe(0);
    expect((await kubectl(["logs", "reads"])).out).toBe("kept\n");
    const { out: on } = await kubectl(["get", "pod", "reads", "-o", "jsonpath={.spec.nodeName}"]);
    const folder = join(place(), "vnodes", on, "kubelet/gpve-volumes");
    expect(readdirSync(folder)).toHaveLength(1);
    expect((await ctl("vc", "scale", "demo", "--workers", "0")).err).toContain(
      "has a persistent volume, which would go with it",
    );
    await kubectl(["delete", "pod/writes", "pod/reads", "pvc/data"]);
    await until("the volume is gone", async () => readdirSync(folder).length === 0);
  });

  const evil = (name: string, more: object, container: object = {}) => {
    const { containers, ...spec } = podSpec("sleep 60");
    const [main] = containers;
    return {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, namespace: "default" },
      spec: { ...spec, containers: [{ ...main, ...container }], ...more },
    };
  };
  test.each([
    ["privileged", evil("p", {}, { securityContext: { privileged: true } }), "privileged containers"],
    ["hostPath", evil("p", { volumes: [{ name: "v", hostPath: { path: "/" } }] }), "hostPath"],
    ["host network", evil("p", { hostNetwork: true }), "hostNetwork"],
    ["host processes", evil("p", { hostPID: true }), "hostPID"],
    [
      "a capability",
      evil("p", {}, { securityContext: { capabilities: { add: ["SYS_ADMIN"] } } }),
      "capabilities that may be added",
    ],
    [
      "no seccomp",
      evil("p", {}, { securityContext: { seccompProfile: { type: "Unconfined" } } }),
      "Unconfined",
    ],
    [
      "an nfs server",
      evil("p", { volumes: [{ name: "v", nfs: { server: "1.2.3.4", path: "/" } }] }),
      "volumes may",
    ],
    [
      "a volume of the machine",
      {
        apiVersion: "v1",
        kind: "PersistentVolume",
        metadata: { name: "v" },
        spec: { capacity: { storage: "1Gi" }, accessModes: ["ReadWriteOnce"], hostPath: { path: "/" } },
      },
      "are not offered",
    ],
  ])("refuse whoever wants %s, though he administers the cluster", async (_what, object, why) => {
    expect(await apply([object])).toMatchObject({ code: 1, err: expect.stringContaining(why) });
  });

  test("keep their guard, their logs and their machine from whoever administers the cluster", async () => {
    const name = "gpve-l1-pods.static.k8s.io";
    expect((await kubectl(["delete", "validatingadmissionpolicy", name])).code).toBe(1);
    expect((await kubectl(["delete", "validatingadmissionpolicybinding", "--all"])).err).not.toContain(
      "panic",
    );
    const still = await apply([evil("still", { hostNetwork: true })]);
    expect(still.err).toContain("hostNetwork");
    const asOthers = ["--as=gpve-agent", "--as-group=system:masters"];
    const acted = await kubectl(
      ["apply", "--validate=false", "-f", "-", ...asOthers],
      JSON.stringify(evil("other", { hostPID: true })),
    );
    // Nobody becomes a master; what a master would be allowed is not even asked.
    expect(acted).toMatchObject({
      code: 1,
      err: expect.stringMatching(/belongs-to-the-platform|system:masters/),
    });
    // The kubelet would show this machine's /var/log here.
    const logs = await kubectl(["get", "--raw", "/api/v1/nodes/worker-1/proxy/logs/"]);
    expect(logs.code).toBe(1);
    // From a pod: the kubelet wants a certificate; this machine and what it knows of its host are not there.
    const { network } = JSON.parse(readFileSync(join(place(), "cluster.json"), "utf8")) as {
      network: number;
    };
    const [high, low] = [80 + Math.floor(network / 256), network % 256];
    const reach = (address: string, port: number) =>
      kubectl([
        "exec",
        "deploy/web",
        "--",
        "timeout",
        "4",
        "sh",
        "-c",
        `nc -w 3 ${address} ${port} </dev/null && echo reached`,
      ]);
    expect((await reach(`100.${high}.${low}.2`, 6443)).out).toContain("reached");
    expect((await reach(`100.${high}.${low}.1`, 22)).out).not.toContain("reached");
    const { port } = new URL(gpve.credentials.url);
    expect((await reach(`100.${high}.${low}.1`, Number(port))).out).not.toContain("reached");
    expect((await reach("169.254.169.254", 80)).out).not.toContain("reached");
    const mounts = await kubectl(["exec", "deploy/web", "--", "cat", "/proc/mounts"]);
    expect(mounts.out).not.toContain(`${gpve.data} `);
  });

  test("run on while the agent is killed, and are found again", async () => {
    const pid = partPid("w0-kubelet");
    await gpve.kill();
    expect((await kubectl(["exec", "deploy/web", "--", "echo", "still here"])).out).toContain("still here");
    gpve = await gpve.restart();
    expect(partPid("w0-kubelet")).toBe(pid);
  });

  test("follow a new authority of their cluster, and the end of the old one; their pods run on", async () => {
    const started = ["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.startTime}"];
    const before = (await kubectl(started)).out;
    expect(before).not.toBe("");
    for (const more of [[], ["--drop-old", "--yes"]]) {
      expect(await ctl("vc", "rotate-ca", "demo", ...more)).toMatchObject({ code: 0 });
      const got = await ctl("vc", "kubeconfig", "demo");
      writeFileSync(kubeconfig(), got.out, { mode: 0o600 });
      // A pod of it is told through its kubelet; a name is answered by a pod that asks the API.
      const name = "kubernetes.default.svc.cluster.local";
      await until("names are answered", async () =>
        (await kubectl(["exec", "deploy/web", "--", "nslookup", name])).out.includes("10.96.0.1"),
      );
      expect((await kubectl(["get", "nodes", "--no-headers"])).out).not.toContain("NotReady");
    }
    expect((await kubectl(started)).out).toBe(before);
  }, 600_000);

  test("are repaired when a part or the network of one is lost", async () => {
    const containerd = partPid("w0-containerd");
    const { out: before } = await kubectl(["get", "pods", "-l", "app=web", "-o", "name"]);
    process.kill(containerd, "SIGKILL");
    process.kill(partPid("w1-kubelet"), "SIGKILL");
    await until("containerd is back", async () => partPid("w0-containerd") !== containerd);
    await until("exec answers", async () =>
      (await kubectl(["exec", "deploy/web", "--", "echo", "well"])).out.includes("well"),
    );
    // Pods outlive what looks after them.
    expect((await kubectl(["get", "pods", "-l", "app=web", "-o", "name"])).out).toBe(before);
    await kubectl(["delete", "node", "worker-2"]);
    await until("worker-2 is Ready again", async () =>
      /^worker-2 +Ready /m.test((await kubectl(["get", "nodes", "--no-headers"])).out),
    );
  });

  test("leave drained when there shall be fewer, and come again", async () => {
    expect(await ctl("vc", "scale", "demo", "--workers", "1")).toMatchObject({ code: 0 });
    const { out } = await kubectl(["get", "nodes", "--no-headers"]);
    expect(out.trim().split("\n")).toEqual([expect.stringMatching(/^worker-1 +Ready/)]);
    expect((await kubectl(["rollout", "status", "deployment/web", "--timeout=180s"])).out).toContain(
      "success",
    );
    expect(readdirSync(join(place(), "vnodes"))).toEqual(["worker-1"]);
    expect((await leftOfClusters(gpve.data)).filter((line) => /w1\b/.test(line))).toEqual([]);
  });

  test("end with all that runs by `down --guests`, and come back with the next `up`", async () => {
    const { stdout } = await exec(nodeBinary, [mainFile, "down", "--guests", "--data", gpve.data], {
      timeoutMs: 150_000,
    });
    expect(stdout).toContain("virtual clusters have ended, until the next up: demo");
    expect(await leftOfClusters(gpve.data)).toEqual([]);
    gpve = await gpve.restart();
    await until("a pod runs a command", async () =>
      (await kubectl(["exec", "deploy/web", "--", "echo", "here again"])).out.includes("here again"),
    );
  });

  test("go with their cluster, without a trace", async () => {
    expect((await leftOfClusters(gpve.data)).length).toBeGreaterThan(5);
    expect(await ctl("vc", "delete", "demo", "--yes")).toMatchObject({ code: 0 });
    await expect.poll(() => leftOfClusters(gpve.data), { timeout: 60_000 }).toEqual([]);
  });
});

function partPid(part: string): number {
  try {
    const state = readFileSync(join(gpve.data, `vclusters/run/guests/demo.${part}/state`), "utf8");
    return (JSON.parse(state) as { pid: number }).pid;
  } catch {
    return 0; // it is being started
  }
}
