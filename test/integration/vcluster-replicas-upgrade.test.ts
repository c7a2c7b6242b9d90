// A virtual cluster of three replicas with a worker on each of three nodes, on real Kubernetes: replica after replica and worker
// after worker goes to the next minor while others answer; a minor that cannot work leaves all of them as they were. A long run.
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { type TestLab, newLab, tracesOf } from "../support/lab.ts";
import { cachedVersions, canRunClusters, components, ctl, kubectl } from "../support/vclusters.ts";

const [newest = "", ...others] = cachedVersions();
const minorOf = (version: string): number => Number(version.split(".")[1]);
const before = others.find((version) => minorOf(version) === minorOf(newest) - 1);
const canRun = canRunClusters && before !== undefined;
if (!canRun)
  console.warn(
    "SKIPPED: an upgrade of three replicas needs root and two minors of Kubernetes in this machine's cache",
  );

const LONG_MS = 1_200_000;

describe.skipIf(!canRun)("an upgrade of three replicas", { timeout: LONG_MS }, () => {
  let lab: TestLab;
  /** Nobody else is to find the minor that cannot work. */
  let own = "";
  const next = `1.${minorOf(newest) + 1}.0`;
  const kubeconfig = (): string => join(lab.data, "trio.kubeconfig");
  const status = async (): Promise<{
    readonly phase: string;
    readonly kubernetesVersion: string;
    readonly replicas: readonly { readonly ready: boolean }[];
  }> => {
    const said = await ctl(lab, "get", "vc", "trio", "-o", "json");
    return (JSON.parse(said.out) as { status: Awaited<ReturnType<typeof status>> }).status;
  };
  const kubelets = async (): Promise<readonly string[]> => {
    const path = `jsonpath={range .items[*]}{.status.nodeInfo.kubeletVersion}={.status.conditions[?(@.type=="Ready")].status} {end}`;
    return (await kubectl(kubeconfig(), "get", "nodes", "-o", path)).out.trim().split(" ");
  };
  const word = async (): Promise<string> =>
    (await kubectl(kubeconfig(), "get", "configmap", "c", "-o", "jsonpath={.data.word}")).out;

  /** Asks with kubectl while something happens; how many were not answered. */
  const asking = async (happening: () => Promise<void>): Promise<void> => {
    let isOver = false;
    let [answered, failed, gapMs, last] = [0, 0, 0, performance.now()];
    const running = (async () => {
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
    await running;
    console.info(`${answered} answers, ${failed} failures, longest time without one ${Math.round(gapMs)} ms`);
    expect(answered).toBeGreaterThan(0);
    expect(gapMs).toBeLessThan(60_000);
  };

  beforeAll(async () => {
    own = mkdtempSync(join(dirname(components), "upgrade-"));
    mkdirSync(join(own, "kubernetes"));
    for (const version of [newest, before ?? ""])
      await exec("cp", ["-alT", join(components, "kubernetes", version), join(own, "kubernetes", version)]);
    for (const name of readdirSync(components).filter((each) => !/^\.|^(?:kubernetes|objects)/.test(each)))
      await exec("cp", ["-alT", join(components, name), join(own, name)]);
    lab = newLab({ GPVE_COMPONENTS: own });
    await lab.gpve("up", "--nodes", "3", "--detach", "--listen", "127.0.0.1:0");
    const wanted = ["--tier", "Enterprise", "--workers", "3", "--kubernetes-version", before ?? "", "--wait"];
    expect(await ctl(lab, "vc", "create", "trio", ...wanted)).toMatchObject({ code: 0 });
    const got = await ctl(lab, "vc", "kubeconfig", "trio");
    writeFileSync(kubeconfig(), got.out, { mode: 0o600 });
    const made = await kubectl(kubeconfig(), "create", "configmap", "c", "--from-literal=word=kept");
    expect(made).toMatchObject({ code: 0 });
  }, LONG_MS);
  afterAll(async () => {
    await lab?.remove();
    rmSync(own, { recursive: true, force: true });
  }, LONG_MS);

  test("goes replica by replica and worker by worker, and its API answers", async () => {
    await expect.poll(kubelets, { timeout: LONG_MS }).toEqual(Array(3).fill(`v${before ?? ""}=True`));
    await asking(async () => {
      const said = await ctl(lab, "vc", "upgrade", "trio", "--to", newest);
      console.info(said.err);
      expect(said).toMatchObject({ code: 0 });
    });
    await expect
      .poll(status, { timeout: LONG_MS })
      .toMatchObject({ phase: "Running", kubernetesVersion: newest });
    await expect
      .poll(async () => (await status()).replicas.filter(({ ready }) => ready).length, { timeout: LONG_MS })
      .toBe(3);
    await expect.poll(kubelets, { timeout: LONG_MS }).toEqual(Array(3).fill(`v${newest}=True`));
    expect(await word()).toBe("kept");
  });

  test("to what cannot work leaves all of them as they were", async () => {
    const folder = join(lab.data, "broken");
    mkdirSync(folder);
    const from = join(components, "kubernetes", newest);
    for (const program of ["kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"])
      copyFileSync(join(from, program), join(folder, program));
    const script = `#!/bin/sh\n[ "$1" = --version ] && echo "Kubernetes v${next}" && exit 0\nexit 3\n`;
    writeFileSync(join(folder, "kube-apiserver"), script, { mode: 0o755 });
    // All nodes of the lab share one folder.
    const imported = await ctl(lab, "component", "import", "kubernetes", next, "--from", folder);
    expect(imported).toMatchObject({ code: 0 });
    await asking(async () => {
      const said = await ctl(lab, "vc", "upgrade", "trio", "--to", next);
      console.info(said.err);
      expect(said.code).not.toBe(0);
    });
    await expect
      .poll(status, { timeout: LONG_MS })
      .toMatchObject({ phase: "Running", kubernetesVersion: newest });
    await expect.poll(kubelets, { timeout: LONG_MS }).toEqual(Array(3).fill(`v${newest}=True`));
    expect(await word()).toBe("kept");
  });

  test("leaves nothing anywhere when it is deleted", async () => {
    expect(await ctl(lab, "vc", "delete", "trio", "--yes")).toMatchObject({ code: 0 });
    // The way in to clusters ends by itself when the last one of a node is gone.
    const left = async (): Promise<readonly string[]> =>
      (await tracesOf(lab.data)).filter((line) => /vclusters|-vc\d|gpve_vc_/.test(line));
    await expect.poll(left, { timeout: 150_000, interval: 500 }).toEqual([]);
  });
});
