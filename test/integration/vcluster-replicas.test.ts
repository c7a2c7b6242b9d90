// A virtual cluster of three replicas on a lab of four nodes, on real Kubernetes: its API answers while a node is lost, the
// node's replica goes on when it comes back, and is another node's when it does not. A long run (GPVE_VC_REPLICAS=1).
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
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
    const made = await ctl(lab, "vc", "create", "trio", "--tier", "Enterprise", "--wait");
    expect(made).toMatchObject({ code: 0 });
    console.info(`made in ${Math.round(performance.now() - began)} ms`);
    await expect.poll(serving, { timeout: 120_000, interval: 1_000 }).toHaveLength(3);
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

  test("answers while a node is lost, and is whole again when that is back", async () => {
    const [, lost = ""] = await serving();
    await askingDuring(`${lost} loses its power`, async () => {
      await lab.fault("kill", lost);
      await expect.poll(serving, { timeout: 120_000, interval: 1_000 }).toHaveLength(2);
    });
    expect((await shown()).conditions).toMatchObject([
      { type: "Ready", status: "True" },
      { status: "False" },
    ]);
    await write("second");
    await lab.fault("heal", lost);
    await expect.poll(serving, { timeout: 300_000, interval: 1_000 }).toContain(lost);
    await write("third");
    await expectAllWritten();
  }, 900_000);

  test("has the replica of a node that does not come back on another one", async () => {
    const before = (await shown()).replicas.map(({ node }) => node);
    const [lost = ""] = before;
    const spare = NODES.find((node) => !before.includes(node)) ?? "";
    const began = performance.now();
    await askingDuring(`${lost} loses its power for good`, async () => {
      await lab.fault("kill", lost);
      await expect.poll(serving, { timeout: 600_000, interval: 1_000 }).toContain(spare);
    });
    console.info(`${spare} has the replica of ${lost} after ${Math.round(performance.now() - began)} ms`);
    expect([...(await serving())].toSorted()).toEqual([...before.slice(1), spare].toSorted());
    await write("fourth");
    // What the lost node has of it goes when that is back; the platform's own store needs it for what follows.
    await lab.fault("heal", lost);
    const left = (): boolean => existsSync(join(lab.data, "nodes", lost, "vclusters", "clusters", "trio"));
    await expect.poll(left, { timeout: 300_000, interval: 1_000 }).toBe(false);
    // Each of them can be lost now, also one of those that were there before.
    const [, next = ""] = before;
    await askingDuring(`${next} is cut off`, async () => {
      await lab.fault("cut", next);
      await expect.poll(serving, { timeout: 120_000, interval: 1_000 }).toHaveLength(2);
    });
    await write("fifth");
    await lab.fault("heal", next);
    await expect.poll(serving, { timeout: 300_000, interval: 1_000 }).toHaveLength(3);
    await expectAllWritten();
  }, 1_800_000);

  test("stops and starts with all that it had, and leaves nothing anywhere when it is deleted", async () => {
    expect(await ctl(lab, "vc", "stop", "trio")).toMatchObject({ code: 0 });
    expect(await ctl(lab, "vc", "start", "trio")).toMatchObject({ code: 0 });
    await expect.poll(serving, { timeout: 300_000, interval: 1_000 }).toHaveLength(3);
    await expectAllWritten();
    expect(await ctl(lab, "vc", "delete", "trio", "--yes")).toMatchObject({ code: 0 });
    const left = (await tracesOf(lab.data)).filter((line) => /vclusters|-vc\d|gpve_vc_/.test(line));
    expect(left).toEqual([]);
  }, 900_000);
});
