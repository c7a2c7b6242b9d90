// A virtual cluster of three replicas with workers on a lab of four nodes, on real Kubernetes: its API answers while a node is
// lost, pods on the others go on and reach it and each other, the node's replica and workers go on when it comes back, and are
// another node's when it does not. A long run (GPVE_VC_REPLICAS=1).
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { type TestLab, newLab, tracesOf } from "../support/lab.ts";
import { canRunClusters, components, ctl, kubectl } from "../support/vclusters.ts";

const canRun = canRunClusters && process.env["GPVE_VC_REPLICAS"] === "1";
if (!canRun)
  console.warn(
    "SKIPPED: clusters of three replicas need GPVE_VC_REPLICAS=1, root and Kubernetes in this machine's cache",
  );

interface Shown {
  readonly node: string;
  readonly phase: string;
  readonly replicas: readonly { readonly node: string; readonly ready: boolean }[];
  readonly vnodes: readonly { readonly name: string; readonly node: string }[];
  readonly conditions: readonly {
    readonly type: string;
    readonly status: string;
    readonly message?: string;
  }[];
}

const NODES = ["n1", "n2", "n3", "n4"];

describe.skipIf(!canRun)("a virtual cluster of three replicas", () => {
  let lab: TestLab;
  const kubeconfig = (): string => join(lab.data, "trio.kubeconfig");
  const shown = async (): Promise<Shown> => {
    const said = await ctl(lab, "get", "vc", "trio", "-o", "json");
    expect(said).toMatchObject({ code: 0 });
    return (JSON.parse(said.out) as { status: Shown }).status;
  };
  const serving = async (): Promise<readonly string[]> =>
    (await shown()).replicas.filter(({ ready }) => ready).map(({ node }) => node);
  const endpoints = async (): Promise<number> => {
    const path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
    const { out } = await kubectl(kubeconfig(), "get", "--raw", path);
    return (JSON.parse(out) as { endpoints: readonly unknown[] }).endpoints.length;
  };
  /** Whose kubelets say that they are, of those that the API has. */
  const readyWorkers = async (): Promise<readonly string[]> => {
    const path = `jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type=="Ready")].status} {end}`;
    const { out } = await kubectl(kubeconfig(), "get", "nodes", "-o", path);
    return [...out.matchAll(/(\S+)=True/g)].map(([, name = ""]) => name).toSorted();
  };
  const workerOn = async (node: string): Promise<string> =>
    (await shown()).vnodes.find((vnode) => vnode.node === node)?.name ?? "";
  const runPod = async (worker: string): Promise<void> => {
    const name = `on-${worker}`;
    const command = ["sh", "-c", "cd /tmp; hostname > index.html; exec httpd -f -p 8080"];
    const spec = {
      nodeName: worker,
      terminationGracePeriodSeconds: 0,
      containers: [{ name: "web", image: "gpve.local/busybox:1", command }],
    };
    const file = join(lab.data, `${name}.json`);
    writeFileSync(file, JSON.stringify({ apiVersion: "v1", kind: "Pod", metadata: { name }, spec }));
    expect(await kubectl(kubeconfig(), "apply", "-f", file)).toMatchObject({ code: 0 });
    const wait = ["wait", "--for=condition=Ready", `pod/${name}`, "--timeout=240s"];
    expect(await kubectl(kubeconfig(), ...wait)).toMatchObject({ code: 0 });
  };
  const inPod = (worker: string, ...argv: readonly string[]) =>
    kubectl(kubeconfig(), "exec", `on-${worker}`, "--", ...argv);
  /** Over their own addresses, from node to node. */
  const expectFetch = async (from: string, to: string): Promise<void> => {
    const path = "jsonpath={.status.podIP}";
    const { out: address } = await kubectl(kubeconfig(), "get", "pod", `on-${to}`, "-o", path);
    const fetched = (): Promise<unknown> => inPod(from, "wget", "-qO-", `http://${address}:8080/`);
    await expect
      .poll(fetched, { timeout: 120_000, interval: 1_000 })
      .toMatchObject({ code: 0, out: `on-${to}\n` });
  };
  /** At the Service that every pod knows it by: whichever replica is behind it. */
  const expectApiFrom = async (worker: string): Promise<void> => {
    const dial = "nc -w 5 10.96.0.1 443 < /dev/null && echo reached";
    for (let round = 0; round < 6; round++)
      await expect
        .poll(() => inPod(worker, "sh", "-c", dial), { timeout: 120_000, interval: 1_000 })
        .toMatchObject({ code: 0, out: "reached\n" });
  };
  const pidOf = (node: string, part: string): number => {
    const state = join(lab.data, "nodes", node, "vclusters/run/guests", `trio.${part}`, "state");
    return (JSON.parse(readFileSync(state, "utf8")) as { pid: number }).pid;
  };
  const written: string[] = [];
  const write = async (name: string): Promise<void> => {
    expect(await kubectl(kubeconfig(), "create", "configmap", name)).toMatchObject({ code: 0 });
    written.push(name);
  };
  const expectAllWritten = async (): Promise<void> => {
    const said = await kubectl(kubeconfig(), "get", "configmaps", "-o", "name");
    expect(said).toMatchObject({ code: 0 });
    for (const name of written) expect(said.out).toContain(`configmap/${name}\n`);
  };

  /** Asks and asks with kubectl while something happens: how many did not get an answer, and the longest time without one. */
  const askingDuring = async (what: string, happening: () => Promise<void>): Promise<void> => {
    let isOver = false;
    let [answered, failed, gapMs] = [0, 0, 0];
    let last = performance.now();
    const asking = (async () => {
      while (!isOver) {
        const { code } = await kubectl(kubeconfig(), "get", "namespace", "default", "-o", "name");
        if (code !== 0) failed++;
        else {
          answered++;
          gapMs = Math.max(gapMs, performance.now() - last);
          last = performance.now();
        }
      }
    })();
    await happening();
    isOver = true;
    await asking;
    console.info(
      `${what}: ${answered} answers, ${failed} failures, longest time without one ${Math.round(gapMs)} ms`,
    );
    expect(answered).toBeGreaterThan(0);
    // How long it was is printed; a minute would be an outage.
    expect(gapMs).toBeLessThan(60_000);
  };

  beforeAll(async () => {
    lab = newLab({ GPVE_COMPONENTS: components });
    await lab.gpve("up", "--nodes", "4", "--detach", "--listen", "127.0.0.1:0");
  }, 600_000);
  afterAll(() => lab?.remove(), 600_000);

  test("is on three nodes, with one API, and says so", async () => {
    const began = performance.now();
    const wanted = ["--tier", "Enterprise", "--workers", "3", "--wait"];
    const made = await ctl(lab, "vc", "create", "trio", ...wanted);
    expect(made).toMatchObject({ code: 0 });
    console.info(`made in ${Math.round(performance.now() - began)} ms`);
    await expect.poll(serving, { timeout: 600_000, interval: 1_000 }).toHaveLength(3);
    const { conditions, replicas } = await shown();
    expect(new Set(replicas.map(({ node }) => node)).size).toBe(3);
    expect(conditions).toMatchObject([
      { type: "Ready", status: "True" },
      { type: "ReplicasReady", status: "True", message: "3 of 3 replicas serve" },
    ]);
    const got = await ctl(lab, "vc", "kubeconfig", "trio");
    expect(got).toMatchObject({ code: 0 });
    writeFileSync(kubeconfig(), got.out, { mode: 0o600 });
    expect(got.out).toContain('"tls-server-name": "trio.default.vc.gpve"');
    await write("first");
    await expect.poll(endpoints, { timeout: 120_000, interval: 1_000 }).toBe(3);
    expect(await ctl(lab, "vc", "sleep", "trio")).toMatchObject({
      err: expect.stringContaining("of several replicas does not sleep") as string,
    });
  }, 900_000);

  test("has a worker on each of its nodes; their pods reach each other and the API, and there can be more and fewer", async () => {
    const nodes = await serving();
    await expect.poll(readyWorkers, { timeout: 300_000, interval: 1_000 }).toHaveLength(3);
    const workers = await Promise.all(nodes.map(workerOn));
    expect([...workers].toSorted()).toEqual(["worker-1", "worker-2", "worker-3"]);
    for (const worker of workers) await runPod(worker);
    for (const from of workers) {
      for (const to of workers) if (from !== to) await expectFetch(from, to);
      await expectApiFrom(from);
    }
    for (const count of [4, 3]) {
      expect(await ctl(lab, "vc", "scale", "trio", "--workers", String(count))).toMatchObject({ code: 0 });
      await expect.poll(readyWorkers, { timeout: 300_000, interval: 1_000 }).toHaveLength(count);
      await expect.poll(serving, { timeout: 120_000, interval: 1_000 }).toHaveLength(3);
    }
  }, 1_800_000);

  test("has workers that reach another replica where the one of their node does not serve", async () => {
    const [node = ""] = await serving();
    const { instanceId } = JSON.parse(readFileSync(join(lab.data, "instance.json"), "utf8")) as {
      instanceId: string;
    };
    const inside = ["netns", "exec", `gpve-${instanceId}-${node}`];
    const slot = (await shown()).replicas.findIndex((each) => each.node === node);
    const ask = async (port: number): Promise<string> => {
      const url = `https://100.88.0.${2 + slot}:${port}/readyz`;
      return (
        await exec("ip", [...inside, "curl", "-sk", "-m", "5", url], { okCodes: [0, 7, 28, 35, 52, 56] })
      ).stdout;
    };
    await expect.poll(() => ask(6444), { timeout: 150_000 }).toBe("ok");
    const pid = pidOf(node, "kube-apiserver");
    process.kill(pid, "SIGSTOP");
    try {
      const began = performance.now();
      await expect.poll(() => ask(6444), { timeout: 150_000, interval: 100 }).toBe("ok");
      console.info(
        `workers of ${node} reach another replica ${Math.round(performance.now() - began)} ms after theirs stands still`,
      );
      expect(await ask(6443)).toBe("");
    } finally {
      process.kill(pid, "SIGCONT");
    }
    await expect.poll(() => ask(6443), { timeout: 120_000 }).toBe("ok");
  }, 600_000);

  test("gets another authority replica by replica, and answers meanwhile", async () => {
    const authority = (node: string, name: string): string =>
      readFileSync(join(lab.data, "nodes", node, "vclusters/clusters/trio/pki", name), "utf8");
    const nodes = await serving();
    const before = ["ca.crt", "etcd-ca.crt"].map((name) => authority(nodes[0] ?? "", name));
    const rotated = async (...more: readonly string[]): Promise<void> => {
      expect(await ctl(lab, "vc", "rotate-ca", "trio", ...more)).toMatchObject({ code: 0 });
      await expect.poll(serving, { timeout: 300_000, interval: 1_000 }).toHaveLength(3);
    };
    await askingDuring("both authorities are trusted", () => rotated("--grace", "1"));
    const old = join(lab.data, "old.kubeconfig");
    writeFileSync(old, readFileSync(kubeconfig(), "utf8"), { mode: 0o600 });
    const got = await ctl(lab, "vc", "kubeconfig", "trio");
    expect(got).toMatchObject({ code: 0 });
    writeFileSync(kubeconfig(), got.out, { mode: 0o600 });
    await write("between");
    await askingDuring("the old authority is dropped", () => rotated("--drop-old", "--yes"));
    expect((await kubectl(old, "get", "namespaces")).code).toBe(1);
    for (const name of ["ca.crt", "etcd-ca.crt"]) {
      const now = new Set(nodes.map((node) => authority(node, name)));
      expect([now.size, before.some((pem) => now.has(pem))]).toEqual([1, false]);
    }
    for (const node of nodes)
      expect(
        existsSync(join(lab.data, "nodes", node, "vclusters/clusters/trio/pki/former-etcd-ca.crt")),
      ).toBe(false);
    await write("after");
    await expectAllWritten();
    await expect.poll(readyWorkers, { timeout: 300_000, interval: 1_000 }).toHaveLength(3);
    const [from = "", to = ""] = await readyWorkers();
    await expectFetch(from, to);
    await expectApiFrom(from);
  }, 1_800_000);

  test("answers while a node is lost, and is whole again when that is back", async () => {
    const [here = "", lost = "", there = ""] = await serving();
    const [own, gone, other] = [await workerOn(here), await workerOn(lost), await workerOn(there)];
    await askingDuring(`${lost} loses its power`, async () => {
      await lab.fault("kill", lost);
      await expect.poll(serving, { timeout: 120_000, interval: 1_000 }).toHaveLength(2);
    });
    expect((await shown()).conditions).toMatchObject([
      { type: "Ready", status: "True" },
      { status: "False" },
    ]);
    await write("second");
    await expect.poll(readyWorkers, { timeout: 300_000, interval: 1_000 }).toEqual([own, other].toSorted());
    await expectFetch(own, other);
    await expectFetch(other, own);
    await expectApiFrom(own);
    await expectApiFrom(other);
    await lab.fault("heal", lost);
    // On that node, or where it was put meanwhile: a busy machine takes longer for all this than a node may be away.
    await expect.poll(serving, { timeout: 300_000, interval: 1_000 }).toHaveLength(3);
    await write("third");
    await expectAllWritten();
    await expect.poll(readyWorkers, { timeout: 300_000, interval: 1_000 }).toContain(gone);
    await runPod(gone);
    await expectFetch(gone, own);
    await expectFetch(own, gone);
  }, 900_000);

  test("has the replica of a node that does not come back on another one", async () => {
    const before = (await shown()).replicas.map(({ node }) => node);
    const [lost = "", next = ""] = before;
    const [moved, own] = [await workerOn(lost), await workerOn(next)];
    const spare = NODES.find((node) => !before.includes(node)) ?? "";
    const began = performance.now();
    await askingDuring(`${lost} loses its power for good`, async () => {
      await lab.fault("kill", lost);
      await expect.poll(serving, { timeout: 600_000, interval: 1_000 }).toContain(spare);
    });
    console.info(`${spare} has the replica of ${lost} after ${Math.round(performance.now() - began)} ms`);
    expect([...(await serving())].toSorted()).toEqual([...before.slice(1), spare].toSorted());
    await write("fourth");
    // The worker of the lost node is made anew on the other one, and the pods that were bound to it run there.
    await expect.poll(() => workerOn(spare), { timeout: 120_000, interval: 1_000 }).toBe(moved);
    await expect.poll(readyWorkers, { timeout: 300_000, interval: 1_000 }).toHaveLength(3);
    await runPod(moved);
    await expectFetch(moved, own);
    await expectFetch(own, moved);
    await expectApiFrom(moved);
    // What the lost node has of it goes when that is back; the platform's own store needs it for what follows.
    await lab.fault("heal", lost);
    const left = (): boolean => existsSync(join(lab.data, "nodes", lost, "vclusters", "clusters", "trio"));
    await expect.poll(left, { timeout: 300_000, interval: 1_000 }).toBe(false);
    // Each of them can be lost now, also one of those that were there before.
    await askingDuring(`${next} is cut off`, async () => {
      await lab.fault("cut", next);
      await expect.poll(serving, { timeout: 120_000, interval: 1_000 }).toHaveLength(2);
    });
    await write("fifth");
    await lab.fault("heal", next);
    await expect.poll(serving, { timeout: 300_000, interval: 1_000 }).toHaveLength(3);
    await expectAllWritten();
  }, 1_800_000);

  test("is backed up, and is another one with what it had", async () => {
    expect(await ctl(lab, "vc", "backup", "trio")).toMatchObject({ code: 0 });
    const listed = await ctl(lab, "vc", "backups", "trio", "-o", "json");
    expect(listed).toMatchObject({ code: 0 });
    const [archive = ""] = /local:backup\/vzdump-vc-trio_default-[\w-]+\.tar\.gz/.exec(listed.out) ?? [];
    const wanted = ["--from", archive, "--workers", "0"];
    expect(await ctl(lab, "vc", "restore", "solo", ...wanted)).toMatchObject({ code: 0 });
    const got = await ctl(lab, "vc", "kubeconfig", "solo");
    expect(got).toMatchObject({ code: 0 });
    const file = join(lab.data, "solo.kubeconfig");
    writeFileSync(file, got.out, { mode: 0o600 });
    const { out } = await kubectl(file, "get", "configmaps", "-o", "name");
    for (const name of written) expect(out).toContain(`configmap/${name}\n`);
    expect(await ctl(lab, "vc", "delete", "solo", "--yes")).toMatchObject({ code: 0 });
  }, 900_000);

  test("stops and starts with all that it had, and leaves nothing anywhere when it is deleted", async () => {
    expect(await ctl(lab, "vc", "stop", "trio")).toMatchObject({ code: 0 });
    expect(await ctl(lab, "vc", "start", "trio")).toMatchObject({ code: 0 });
    await expect.poll(serving, { timeout: 600_000, interval: 1_000 }).toHaveLength(3);
    await expectAllWritten();
    await expect.poll(readyWorkers, { timeout: 300_000, interval: 1_000 }).toHaveLength(3);
    expect(await ctl(lab, "vc", "delete", "trio", "--yes")).toMatchObject({ code: 0 });
    // The way in to clusters ends by itself when the last one of a node is gone.
    const left = async (): Promise<readonly string[]> =>
      (await tracesOf(lab.data)).filter((line) => /vclusters|-vc\d|gpve_vc_/.test(line));
    await expect.poll(left, { timeout: 150_000, interval: 500 }).toEqual([]);
  }, 900_000);
});
