// A virtual cluster on real Kubernetes that sleeps: nobody who uses it notices but by the time.
import { connect } from "node:net";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { issueCertificate } from "@gpve/kit/pki/issue-certificate.ts";
import { dueForRenewal, loadPrivateKey, readCertificate } from "@gpve/kit/pki/x509.ts";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Gpve } from "../support/gpve.ts";
import { endClustersOf, leftOfClusters } from "../support/left-clusters.ts";
import {
  canRunClusters,
  ctl,
  kubectl,
  pidOf,
  privateMiB,
  startWithComponents,
} from "../support/vclusters.ts";

if (!canRunClusters)
  console.warn("SKIPPED: sleep of virtual clusters needs root and Kubernetes in this machine's cache");

const PARTS = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/** What waits for the clock is in the long run. */
const WITH_CALENDAR = process.env["GPVE_VC_CALENDAR"] !== undefined;

describe.skipIf(!canRunClusters)("a virtual cluster that sleeps", () => {
  let gpve: Gpve;
  const kubeconfig = (): string => join(gpve.data, "nap.kubeconfig");
  const pods = () => kubectl(kubeconfig(), "get", "pods");
  const power = async (): Promise<string> => {
    const { out } = await ctl(gpve, "get", "vc", "nap", "-o", "json");
    return (JSON.parse(out) as { status: { power: string } }).status.power;
  };
  const namespaces = async (): Promise<readonly string[]> =>
    (await leftOfClusters(gpve.data)).filter((line) => line.startsWith("gpve-"));
  const memory = (): number =>
    PARTS.map((part) => privateMiB(pidOf(gpve, `nap.${part}`))).reduce((sum, each) => sum + each, 0);
  const timed = async (what: string, run: () => Promise<{ code: number; err: string }>): Promise<void> => {
    const began = performance.now();
    const said = await run();
    console.info(`${what}: ${Math.round(performance.now() - began)} ms`);
    expect(said).toMatchObject({ code: 0, err: expect.not.stringMatching(/error|refused|unable/i) });
  };

  beforeAll(async () => {
    gpve = await startWithComponents();
    expect(await ctl(gpve, "vc", "create", "nap", "--wait")).toMatchObject({ code: 0 });
    const { out } = await ctl(gpve, "vc", "kubeconfig", "nap");
    writeFileSync(kubeconfig(), out, { mode: 0o600 });
  }, 600_000);
  afterAll(async () => {
    await endClustersOf(gpve.data);
    await gpve.stop();
    rmSync(gpve.data, { recursive: true, force: true });
  });

  test("answers kubectl when it was warm, and is the same processes", async () => {
    await timed("kubectl get pods, hot", pods);
    const [before, hot] = [pidOf(gpve, "nap.kube-apiserver"), memory()];
    expect(await ctl(gpve, "vc", "sleep", "nap", "--mode", "warm")).toMatchObject({ code: 0 });
    expect(await power()).toBe("warm");
    console.info(`private memory: hot ${hot} MiB, warm ${memory()} MiB`);
    await timed("kubectl get pods, from warm", pods);
    expect(pidOf(gpve, "nap.kube-apiserver")).toBe(before);
    await expect.poll(power, { timeout: 150_000 }).toBe("hot");
  });

  test("answers a thousand who connect to it cold, and is started once", async () => {
    expect(await ctl(gpve, "vc", "sleep", "nap")).toMatchObject({ code: 0 });
    expect(await power()).toBe("cold");
    expect(existsSync(join(gpve.data, "vclusters/run/guests/nap.kube-apiserver/state"))).toBe(false);
    expect(await namespaces()).toEqual([]);
    const { out } = await ctl(gpve, "get", "vc", "nap", "-o", "json");
    const { endpoint } = (JSON.parse(out) as { status: { endpoint: string } }).status;
    const port = Number(new URL(endpoint).port);
    const crowd = Array.from({ length: 1_000 }, () => connect({ host: "127.0.0.1", port }));
    for (const socket of crowd) socket.on("error", () => socket.destroy());
    const began = performance.now();
    let said = await pods();
    // kubectl gives a handshake ten seconds, which a start on a busy machine may take.
    for (let tries = 1; tries < 5 && said.err.includes("handshake timeout"); tries++) {
      console.info(`kubectl did not wait for the start: try ${tries + 1}`);
      said = await pods();
    }
    console.info(
      `kubectl get pods, from cold, among 1000 connections: ${Math.round(performance.now() - began)} ms`,
    );
    expect(said).toMatchObject({ code: 0 });
    for (const socket of crowd) socket.destroy();
    const tasks = await ctl(gpve, "api", "get", "/cluster/tasks", "-o", "json");
    const wakes = (JSON.parse(tasks.out) as { type: string }[]).filter(({ type }) => type === "vcwake");
    expect(wakes).toHaveLength(2);
    console.info(`private memory: awake again ${memory()} MiB, cold 0 MiB`);
  });

  test("lets tenants in while the agent is dead, and is found asleep by the next one", async () => {
    const proxy = pidOf(gpve, "proxy");
    await gpve.kill();
    expect(await pods()).toMatchObject({ code: 0 });
    gpve = await gpve.restart();
    expect(pidOf(gpve, "proxy")).toBe(proxy);
    expect(await ctl(gpve, "vc", "sleep", "nap", "--mode", "warm")).toMatchObject({ code: 0 });
    await gpve.kill();
    // Nobody is there who could wake it: who asks now waits.
    const waiting = pods();
    gpve = await gpve.restart();
    expect(await waiting).toMatchObject({ code: 0 });
  });

  test.skipIf(!WITH_CALENDAR)(
    "wakes by itself for its next CronJob, which then comes",
    { timeout: 600_000 },
    async () => {
      const kept = (...argv: readonly string[]) => kubectl(kubeconfig(), ...argv);
      const wakes = async (): Promise<number> => {
        const { out } = await ctl(gpve, "api", "get", "/cluster/tasks", "-o", "json");
        return (JSON.parse(out) as { type: string }[]).filter(({ type }) => type === "vcwake").length;
      };
      await expect.poll(async () => (await pods()).code, { timeout: 120_000 }).toBe(0);
      const tick = ["create", "cronjob", "tick", "--image=gpve.local/busybox:1", "--schedule=@every 20s"];
      expect(await kept(...tick, "--", "true")).toMatchObject({ code: 0 });
      const before = await wakes();
      expect(await ctl(gpve, "vc", "sleep", "nap")).toMatchObject({ code: 0 });
      const began = performance.now();
      await expect.poll(wakes, { timeout: 120_000, interval: 1_000 }).toBe(before + 1);
      await expect.poll(power, { timeout: 120_000, interval: 1_000 }).toBe("hot");
      console.info(`woken for its job after ${Math.round(performance.now() - began)} ms`);
      await expect
        .poll(async () => (await kept("get", "jobs", "-o", "name")).out, {
          timeout: 120_000,
          interval: 1_000,
        })
        .toContain("job.batch/tick-");
      expect(await kept("delete", "cronjob", "tick")).toMatchObject({ code: 0 });
    },
  );

  test("is made asleep where that is asked for, and starts for the first who comes", async () => {
    expect(await ctl(gpve, "vc", "create", "later", "--asleep", "--wait")).toMatchObject({ code: 0 });
    expect((await ctl(gpve, "vc", "list")).out).toMatch(/^later +default +Running +cold/m);
    expect(existsSync(join(gpve.data, "vclusters/run/guests/later.kube-apiserver/state"))).toBe(false);
    const own = join(gpve.data, "later.kubeconfig");
    writeFileSync(own, (await ctl(gpve, "vc", "kubeconfig", "later")).out, { mode: 0o600 });
    expect(await kubectl(own, "get", "serviceaccount", "default")).toMatchObject({ code: 0 });
    expect(await ctl(gpve, "vc", "delete", "later", "--yes")).toMatchObject({ code: 0 });
  }, 600_000);

  test.skipIf(!WITH_CALENDAR)(
    "gets new certificates before its own end, and answers again",
    { timeout: 600_000 },
    async () => {
      const file = (name: string): string => join(gpve.data, "vclusters/clusters/nap/pki", name);
      const read = (name: string): string => readFileSync(file(name), "utf8");
      const isDue = (): boolean => dueForRenewal(readCertificate(read("scheduler.crt")), Date.now());
      await expect.poll(async () => (await pods()).code, { timeout: 120_000 }).toBe(0);
      await expect.poll(power, { timeout: 150_000 }).toBe("hot");
      await gpve.kill();
      const ca = { certPem: read("ca.crt"), key: await loadPrivateKey(read("ca.key")) };
      const old = await issueCertificate(ca, {
        commonName: "system:kube-scheduler",
        usage: "client",
        now: Date.now() - 300 * 86_400_000,
        lifetimeMs: 365 * 86_400_000,
      });
      writeFileSync(file("scheduler.key"), old.keyPem, { mode: 0o600 });
      writeFileSync(file("scheduler.crt"), old.certPem, { mode: 0o600 });
      expect(isDue()).toBe(true);
      gpve = await gpve.restart();
      const renewals = async (): Promise<readonly string[]> => {
        const { out } = await ctl(gpve, "api", "get", "/cluster/tasks", "-o", "json");
        const tasks = JSON.parse(out) as { type: string; status?: string }[];
        return tasks.flatMap(({ type, status = "" }) => (type === "vcrenew" ? [status] : []));
      };
      await expect.poll(renewals, { timeout: 400_000, interval: 1_000 }).toEqual(["OK"]);
      expect(isDue()).toBe(false);
      expect(await pods()).toMatchObject({ code: 0 });
    },
  );

  test("is not there for who connects to one that was stopped, and leaves nothing behind", async () => {
    expect(await ctl(gpve, "vc", "stop", "nap")).toMatchObject({ code: 0 });
    expect((await pods()).code).toBe(1);
    expect(await ctl(gpve, "vc", "delete", "nap", "--yes")).toMatchObject({ code: 0 });
    await expect.poll(() => leftOfClusters(gpve.data), { timeout: 150_000 }).toEqual([]);
  });
});

describe.skipIf(!canRunClusters)("a virtual cluster that nobody uses", () => {
  let gpve: Gpve;
  afterAll(async () => {
    await endClustersOf(gpve.data);
    await gpve.stop();
    rmSync(gpve.data, { recursive: true, force: true });
  });

  test("goes to sleep by itself", async () => {
    gpve = await startWithComponents();
    const file = join(gpve.data, "idle.yaml");
    const spec = { controlPlane: { tier: "standard" }, sleep: { afterIdleSeconds: 5 } };
    const idle = { apiVersion: "gpve.io/v1", kind: "VirtualCluster", metadata: { name: "idle" }, spec };
    writeFileSync(file, JSON.stringify(idle));
    expect(await ctl(gpve, "apply", "-f", file)).toMatchObject({ code: 0 });
    await expect
      .poll(async () => (await ctl(gpve, "vc", "list")).out, { timeout: 240_000, interval: 1_000 })
      .toMatch(/^idle +default +Running +warm/m);
  });
});
