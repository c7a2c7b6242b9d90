// A virtual cluster with workers on two nodes of a lab, on real Kubernetes: its pods speak to each other from node to node, also
// after its control plane or a worker has moved, it has got another authority, or the node of its control plane was lost. A long run (GPVE_VC_NODES=1);
// the network alone is tried in vcluster-overlay.test.ts.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { type TestLab, newLab, tracesOf } from "../support/lab.ts";
import { canRunClusters, components, ctl, kubectl, type Said } from "../support/vclusters.ts";

const canRun = canRunClusters && process.env["GPVE_VC_NODES"] === "1";
if (!canRun)
  console.warn(
    "SKIPPED: clusters on several nodes need GPVE_VC_NODES=1, root and Kubernetes in this machine's cache",
  );

const NODES = ["n1", "n2"];

describe.skipIf(!canRun)("a virtual cluster on two nodes", () => {
  let lab: TestLab;
  const kubeconfig = (): string => join(lab.data, "wide.kubeconfig");

  const getKubeconfig = async (name: string): Promise<void> => {
    const got = await ctl(lab, "vc", "kubeconfig", name);
    expect(got).toMatchObject({ code: 0 });
    writeFileSync(kubeconfig(), got.out, { mode: 0o600 });
  };
  const placeOf = async (name: string): Promise<unknown> =>
    (JSON.parse((await ctl(lab, "get", "vc", name, "-o", "json")).out) as { status: unknown }).status;
  const runPod = async (name: string, at: number): Promise<void> => {
    const spec = {
      nodeName: `worker-${at}`,
      containers: [
        {
          name: "web",
          image: "gpve.local/busybox:1",
          command: ["sh", "-c", "cd /tmp; hostname > index.html; exec httpd -f -p 8080"],
        },
      ],
    };
    const file = join(lab.data, `${name}.json`);
    writeFileSync(file, JSON.stringify({ apiVersion: "v1", kind: "Pod", metadata: { name }, spec }));
    expect(await kubectl(kubeconfig(), "apply", "-f", file)).toMatchObject({ code: 0 });
  };
  const fetchedBy = async (from: number, to: number): Promise<Said> => {
    const path = "jsonpath={.status.podIP}";
    const { out: address } = await kubectl(kubeconfig(), "get", "pod", `web-${to}`, "-o", path);
    const fetched = ["exec", `web-${from}`, "--", "wget", "-qO-", `http://${address}:8080/`];
    return kubectl(kubeconfig(), ...fetched);
  };
  const expectFetch = async (from: number, to: number): Promise<void> => {
    expect(await fetchedBy(from, to)).toMatchObject({ code: 0, out: `web-${to}\n` });
  };

  const left = async () => (await tracesOf(lab.data)).filter((line) => /vclusters|-vc\d|gpve_vc_/.test(line));

  beforeAll(async () => {
    lab = newLab({ GPVE_COMPONENTS: components });
    await lab.gpve("up", "--nodes", "3", "--detach", "--listen", "127.0.0.1:0");
  }, 600_000);
  afterAll(() => lab?.remove(), 600_000);

  test("is one network: its API answers on the other node, on no third one, and is gone from both when deleted", async () => {
    const made = await ctl(lab, "vc", "create", "thin", "--spread", "--node", "n1", "--wait");
    expect(made).toMatchObject({ code: 0 });
    const { instanceId } = JSON.parse(readFileSync(join(lab.data, "instance.json"), "utf8")) as {
      instanceId: string;
    };
    // The first of those that servers give out.
    const inside = (node: string) => ["netns", "exec", `gpve-${instanceId}-${node}`];
    const livez = async (node: string): Promise<string> =>
      (
        await exec("ip", [...inside(node), "curl", "-sk", "-m", "5", "https://100.88.0.2:6443/livez"], {
          okCodes: [0, 7, 28],
        })
      ).stdout;
    const running = async () => (await ctl(lab, "vc", "list")).out;
    await expect.poll(running, { timeout: 150_000 }).toMatch(/^thin +default +Running/m);
    await expect.poll(() => livez("n2"), { timeout: 150_000 }).toBe("ok");
    expect(await livez("n3")).toBe("");
    expect(await ctl(lab, "vc", "delete", "thin", "--yes")).toMatchObject({ code: 0 });
    expect(await left()).toEqual([]);
  }, 900_000);

  test("has a worker on each, and their pods reach each other", async () => {
    const began = performance.now();
    const made = await ctl(
      lab,
      "vc",
      "create",
      "wide",
      "--workers",
      "2",
      "--spread",
      "--node",
      "n1",
      "--wait",
    );
    expect(made).toMatchObject({ code: 0 });
    console.info(`made in ${Math.round(performance.now() - began)} ms`);
    await getKubeconfig("wide");
    await expect
      .poll(
        async () =>
          (await kubectl(kubeconfig(), "get", "nodes", "--no-headers")).out.match(/ Ready /g)?.length,
        {
          timeout: 120_000,
          interval: 1_000,
        },
      )
      .toBe(2);
    const shown = await ctl(lab, "get", "vc", "wide", "-o", "json");
    const { vnodes } = (JSON.parse(shown.out) as { status: { vnodes: { node: string }[] } }).status;
    expect(vnodes.map(({ node }) => node).toSorted()).toEqual(NODES);
    for (const at of [1, 2]) await runPod(`web-${at}`, at);
    const wait = ["wait", "--for=condition=Ready", "pod/web-1", "pod/web-2", "--timeout=120s"];
    expect(await kubectl(kubeconfig(), ...wait)).toMatchObject({ code: 0 });
    await expectFetch(1, 2);
    await expectFetch(2, 1);
  }, 900_000);

  test("goes on with its workers where they are when its control plane moves to the other node", async () => {
    const began = performance.now();
    const uids = async (): Promise<string> =>
      (
        await kubectl(
          kubeconfig(),
          "get",
          "pods",
          "-o",
          "jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.status.containerStatuses[0].restartCount} {end}",
        )
      ).out;
    const before = await uids();
    expect(before).toMatch(/^web-1 \S+ 0 web-2 \S+ 0 $/);
    expect(await ctl(lab, "vc", "migrate", "wide", "--to", "n2")).toMatchObject({ code: 0 });
    console.info(`moved in ${Math.round(performance.now() - began)} ms`);
    await getKubeconfig("wide");
    await expect
      .poll(() => placeOf("wide"), { timeout: 150_000 })
      .toMatchObject({ node: "n2", phase: "Running" });
    expect(await uids()).toBe(before);
    // Through the API server of the one node to the kubelet of the other, and from there to a pod here.
    await expectFetch(1, 2);
    await expectFetch(2, 1);
    // Its kubelet has to say so again, at the new place: what is created now has to run there.
    await runPod("late", 1);
    const ready = ["wait", "--for=condition=Ready", "pod/late", "--timeout=120s"];
    expect(await kubectl(kubeconfig(), ...ready)).toMatchObject({ code: 0 });
    expect(await ctl(lab, "vc", "migrate", "wide", "--to", "n1")).toMatchObject({ code: 0 });
    await getKubeconfig("wide");
    await expect
      .poll(() => placeOf("wide"), { timeout: 150_000 })
      .toMatchObject({ node: "n1", phase: "Running" });
    await expectFetch(2, 1);
  }, 900_000);

  const vnodeAt = async (name: string, worker: string): Promise<string | undefined> => {
    const { vnodes } = (await placeOf(name)) as { vnodes: { name: string; node: string }[] };
    return vnodes.find((each) => each.name === worker)?.node;
  };
  const ready = async (): Promise<number | undefined> =>
    (await kubectl(kubeconfig(), "get", "nodes", "--no-headers")).out.match(/ Ready /g)?.length;
  const POLL = { timeout: 300_000, interval: 1_000 };

  test("has a worker that moves to a third node and back, with its name, and leaves nothing there", async () => {
    const began = performance.now();
    const moved = ["vc", "migrate", "wide", "--worker", "worker-2", "--to"];
    expect(await ctl(lab, ...moved, "n3")).toMatchObject({ code: 0 });
    console.info(`a worker moved in ${Math.round(performance.now() - began)} ms`);
    await expect.poll(() => vnodeAt("wide", "worker-2"), POLL).toBe("n3");
    await expect.poll(ready, POLL).toBe(2);
    // Drained: what was bound to it and is nobody's is gone.
    await runPod("web-2", 2);
    const wait = ["wait", "--for=condition=Ready", "pod/web-2", "--timeout=120s"];
    expect(await kubectl(kubeconfig(), ...wait)).toMatchObject({ code: 0 });
    await expectFetch(1, 2);
    await expectFetch(2, 1);
    expect(await ctl(lab, ...moved, "n2")).toMatchObject({ code: 0 });
    await expect.poll(() => vnodeAt("wide", "worker-2"), POLL).toBe("n2");
    const folder = join(lab.data, "nodes", "n3", "vclusters", "clusters", "wide");
    await expect.poll(() => existsSync(folder), POLL).toBe(false);
    await runPod("web-2", 2);
    expect(await kubectl(kubeconfig(), ...wait)).toMatchObject({ code: 0 });
    await expectFetch(1, 2);
  }, 900_000);

  test("gets another authority on both nodes; old kubeconfigs are good until the old one is dropped", async () => {
    for (const at of [1, 2]) await runPod(`web-${at}`, at);
    const both = ["wait", "--for=condition=Ready", "pod/web-1", "pod/web-2", "--timeout=120s"];
    expect(await kubectl(kubeconfig(), ...both)).toMatchObject({ code: 0 });
    const old = join(lab.data, "old.kubeconfig");
    writeFileSync(old, readFileSync(kubeconfig(), "utf8"), { mode: 0o600 });
    const authority = (node: string): string =>
      readFileSync(join(lab.data, "nodes", node, "vclusters/clusters/wide/pki/ca.crt"), "utf8");
    const path = "jsonpath={.items[*].metadata.uid}";
    const pods = async (): Promise<string> => (await kubectl(kubeconfig(), "get", "pods", "-o", path)).out;
    const [before, running] = [authority("n1"), await pods()];
    const began = performance.now();
    expect(await ctl(lab, "vc", "rotate-ca", "wide", "--grace", "1")).toMatchObject({ code: 0 });
    console.info(`both authorities are trusted after ${Math.round(performance.now() - began)} ms`);
    expect(authority("n1")).not.toBe(before);
    expect(authority("n2")).toBe(authority("n1"));
    expect(await kubectl(old, "get", "nodes")).toMatchObject({ code: 0 });
    await expect.poll(ready, POLL).toBe(2);
    expect(await pods()).toBe(running);
    // The API server shows kubelets of both nodes what the new one signed, and knows them by it.
    await expectFetch(1, 2);
    await expectFetch(2, 1);
    await getKubeconfig("wide");
    expect(await kubectl(kubeconfig(), "get", "nodes")).toMatchObject({ code: 0 });
    expect(await ctl(lab, "vc", "rotate-ca", "wide", "--drop-old", "--yes")).toMatchObject({ code: 0 });
    expect((await kubectl(old, "get", "nodes")).code).toBe(1);
    await expect.poll(ready, POLL).toBe(2);
    expect(await pods()).toBe(running);
    await expectFetch(1, 2);
    await expectFetch(2, 1);
    for (const node of NODES)
      expect(existsSync(join(lab.data, "nodes", node, "vclusters/clusters/wide/pki/former-ca.crt"))).toBe(
        false,
      );
  }, 900_000);

  test("is backed up with the volumes of both nodes, and is another one on one node that has them", async () => {
    // One for each worker: what is written there is on that worker's node alone.
    for (const at of [1, 2]) {
      const name = `keeper-${at}`;
      const claim = {
        apiVersion: "v1",
        kind: "PersistentVolumeClaim",
        metadata: { name },
        spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Mi" } } },
      };
      const command = ["sh", "-c", `test -e /data/word || echo ${name} > /data/word; exec sleep 100000`];
      const image = "gpve.local/busybox:1";
      const volumeMounts = [{ name: "data", mountPath: "/data" }];
      const pod = {
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name },
        spec: {
          nodeSelector: { "kubernetes.io/hostname": `worker-${at}` },
          terminationGracePeriodSeconds: 0,
          containers: [{ name: "main", image, command, volumeMounts }],
          volumes: [{ name: "data", persistentVolumeClaim: { claimName: name } }],
        },
      };
      const file = join(lab.data, `${name}.json`);
      writeFileSync(file, JSON.stringify({ apiVersion: "v1", kind: "List", items: [claim, pod] }));
      expect(await kubectl(kubeconfig(), "apply", "-f", file)).toMatchObject({ code: 0 });
    }
    const wait = ["wait", "--for=condition=Ready", "pod/keeper-1", "pod/keeper-2", "--timeout=120s"];
    expect(await kubectl(kubeconfig(), ...wait)).toMatchObject({ code: 0 });
    const made = await ctl(lab, "vc", "backup", "wide");
    expect(made).toMatchObject({ code: 0 });
    const listed = await ctl(lab, "vc", "backups", "wide", "-o", "json");
    const [archive = ""] = /local:backup\/vzdump-vc-wide_default-[\w-]+\.tar\.gz/.exec(listed.out) ?? [];
    expect(await ctl(lab, "vc", "restore", "copy", "--from", archive)).toMatchObject({ code: 0 });
    const got = await ctl(lab, "vc", "kubeconfig", "copy");
    expect(got).toMatchObject({ code: 0 });
    const file = join(lab.data, "copy.kubeconfig");
    writeFileSync(file, got.out, { mode: 0o600 });
    for (const at of [1, 2]) {
      const read = ["exec", `keeper-${at}`, "--", "cat", "/data/word"];
      const word = async (): Promise<string> => (await kubectl(file, ...read)).out;
      await expect.poll(word, POLL).toBe(`keeper-${at}\n`);
    }
    const { vnodes } = (await placeOf("copy")) as { vnodes: { node: string }[] };
    expect(new Set(vnodes.map(({ node }) => node)).size).toBe(1);
    expect(await ctl(lab, "vc", "delete", "copy", "--yes", "--volumes")).toMatchObject({ code: 0 });
    const gone = ["delete", "--wait=true", "pod/keeper-1", "pod/keeper-2", "pvc/keeper-1", "pvc/keeper-2"];
    expect(await kubectl(kubeconfig(), ...gone)).toMatchObject({ code: 0 });
  }, 900_000);

  test("goes on from its standby with both workers when the node of its control plane loses its power", async () => {
    expect(await ctl(lab, "vc", "migrate", "wide", "--to", "n2")).toMatchObject({ code: 0 });
    await getKubeconfig("wide");
    const inSync = async (): Promise<unknown> =>
      ((await placeOf("wide")) as { conditions: { type: string }[] }).conditions.find(
        ({ type }) => type === "StandbyInSync",
      );
    await expect.poll(inSync, POLL).toMatchObject({ status: "True" });
    const began = performance.now();
    await lab.fault("kill", "n2");
    await expect.poll(async () => ((await placeOf("wide")) as { node: string }).node, POLL).not.toBe("n2");
    await expect.poll(ready, POLL).toBe(2);
    console.info(`both workers are Ready ${Math.round(performance.now() - began)} ms after the loss`);
    for (const at of [1, 2]) await runPod(`web-${at}`, at);
    const wait = ["wait", "--for=condition=Ready", "pod/web-1", "pod/web-2", "--timeout=120s"];
    await expect.poll(async () => (await kubectl(kubeconfig(), ...wait)).code, POLL).toBe(0);
    // What Kubernetes says of workers is as old as their last word, for fifty seconds.
    await expect.poll(() => fetchedBy(1, 2), POLL).toMatchObject({ code: 0, out: "web-2\n" });
    await lab.fault("heal", "n2");
    const folder = join(lab.data, "nodes", "n2", "vclusters", "clusters", "wide");
    await expect.poll(() => existsSync(folder), POLL).toBe(false);
  }, 900_000);

  test("leaves nothing on either when it is deleted", async () => {
    expect(await ctl(lab, "vc", "delete", "wide", "--yes")).toMatchObject({ code: 0 });
    // Its standby goes afterwards, with the process that it was the last of.
    await expect.poll(left, { timeout: 150_000, interval: 1_000 }).toEqual([]);
  }, 600_000);
});
