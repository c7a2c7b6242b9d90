// Upgrades of virtual clusters on real Kubernetes: one that cannot work and returns by itself, and one between two minors,
// where this machine has two.
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { exec } from "@gpve/kit/exec.ts";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Gpve, startGpve } from "../support/gpve.ts";
import { endClustersOf } from "../support/left-clusters.ts";
import { cachedVersions, canRunClusters, components, ctl, kubectl, type Said } from "../support/vclusters.ts";
import { page } from "../support/page.ts";

const [newest = "", ...others] = cachedVersions();
const minorOf = (version: string): number => Number(version.split(".")[1]);
const before = others.find((version) => minorOf(version) === minorOf(newest) - 1);
if (!canRunClusters)
  console.warn("SKIPPED: upgrades of virtual clusters need root and Kubernetes in this machine's cache");
else if (before === undefined)
  console.warn(
    `SKIPPED: an upgrade between two minors needs the one before ${newest} in the cache: gpvectl component install kubernetes 1.${minorOf(newest) - 1}`,
  );

const isLong = process.env["GPVE_VC_UPGRADES"] === "1";

describe.skipIf(!canRunClusters)("an upgrade of a virtual cluster", () => {
  let gpve: Gpve;
  const kubeconfig = (name: string): string => join(gpve.data, `${name}.kubeconfig`);
  const make = async (name: string, version: string, ...more: readonly string[]): Promise<void> => {
    const argv = ["vc", "create", name, "--kubernetes-version", version, "--wait", ...more];
    expect(await ctl(gpve, ...argv)).toMatchObject({ code: 0 });
    const { out } = await ctl(gpve, "vc", "kubeconfig", name);
    writeFileSync(kubeconfig(name), out, { mode: 0o600 });
    const made = await kubectl(kubeconfig(name), "create", "configmap", "c", "--from-literal=word=kept");
    expect(made).toMatchObject({ code: 0 });
  };
  const word = async (name: string): Promise<string> =>
    (await kubectl(kubeconfig(name), "get", "configmap", "c", "-o", "jsonpath={.data.word}")).out;
  const statusOf = async (name: string): Promise<{ phase: string; kubernetesVersion: string }> => {
    const { out } = await ctl(gpve, "get", "vc", name, "-o", "json");
    return (JSON.parse(out) as { status: { phase: string; kubernetesVersion: string } }).status;
  };
  /** Programs of a next minor whose API server knows its version, and nothing else. */
  const next = `1.${minorOf(newest) + 1}.0`;
  /** Nobody else is to find those: a store of components of its own, with links to what is there. */
  let own = "";

  beforeAll(async () => {
    own = mkdtempSync(join(dirname(components), "upgrade-"));
    mkdirSync(join(own, "kubernetes"));
    for (const version of new Set([newest, before ?? newest]))
      await exec("cp", ["-alT", join(components, "kubernetes", version), join(own, "kubernetes", version)]);
    for (const name of readdirSync(components).filter((each) => !/^\.|^(?:kubernetes|objects)/.test(each)))
      await exec("cp", ["-alT", join(components, name), join(own, name)]);
    gpve = await startGpve({ env: { GPVE_COMPONENTS: own, HOME: process.env["HOME"] ?? "/" } });
    await make("demo", newest);
  }, 600_000);
  afterAll(async () => {
    await endClustersOf(gpve.data);
    await gpve.stop();
    for (const folder of [gpve.data, own]) rmSync(folder, { recursive: true, force: true });
  });

  test("is refused where no way leads, with the reason", async () => {
    const [back, same] = [`1.${minorOf(newest) - 1}`, newest];
    expect((await ctl(gpve, "vc", "upgrade", "demo", "--to", same)).err).toContain("that is what it runs");
    expect((await ctl(gpve, "vc", "upgrade", "demo", "--to", back)).err).toContain("do not go back");
    expect((await ctl(gpve, "vc", "upgrade", "demo", "--to", "1.99")).err).toContain("cannot be had");
  });

  test("that cannot work returns by itself, with all that was in it", async () => {
    const folder = join(gpve.data, "broken");
    mkdirSync(folder);
    const from = join(components, "kubernetes", newest);
    for (const program of ["kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"])
      copyFileSync(join(from, program), join(folder, program));
    const script = `#!/bin/sh\n[ "$1" = --version ] && echo "Kubernetes v${next}" && exit 0\nexit 3\n`;
    writeFileSync(join(folder, "kube-apiserver"), script, { mode: 0o755 });
    const imported = await ctl(gpve, "component", "import", "kubernetes", next, "--from", folder);
    expect(imported).toMatchObject({ code: 0 });
    const said = await ctl(gpve, "vc", "upgrade", "demo", "--to", next);
    console.info(said.err);
    expect(said.code).not.toBe(0);
    expect(said.err).toMatch(/kube-apiserver of (?:virtual cluster )?demo (?:failed|ended)/);
    expect(said.err).toContain(`virtual cluster demo runs Kubernetes ${newest} as before`);
    await expect
      .poll(() => statusOf("demo"), { timeout: 150_000 })
      .toMatchObject({ phase: "Running", kubernetesVersion: newest });
    expect(await word("demo")).toBe("kept");
    const made = await kubectl(kubeconfig("demo"), "create", "configmap", "later", "--from-literal=a=b");
    expect(made).toMatchObject({ code: 0 });
  });

  describe.skipIf(before === undefined)("from one minor to the next", () => {
    const asTenant = (...argv: readonly string[]): Promise<Said> => kubectl(kubeconfig("old"), ...argv);
    const apply = async (...items: readonly object[]): Promise<Said> => {
      const path = join(gpve.data, "objects.json");
      writeFileSync(path, JSON.stringify({ apiVersion: "v1", kind: "List", items }));
      return asTenant("apply", "-f", path);
    };
    const pod = (name: string, command: string, more: object = {}) => ({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, namespace: "default", labels: { app: name } },
      spec: {
        terminationGracePeriodSeconds: 1,
        containers: [{ name: "main", image: "gpve.local/busybox:1", command: ["sh", "-c", command] }],
        ...more,
      },
    });
    const service = {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "web", namespace: "default" },
      spec: { type: "LoadBalancer", selector: { app: "web" }, ports: [{ port: 80, targetPort: 8080 }] },
    };
    const refusedPod = pod("root", "true", { hostPID: true });
    let address = "";

    test("begins with a worker under the guard of its version", { timeout: 600_000 }, async () => {
      await make("old", before ?? "", "--workers", "1");
      const serves = "mkdir /tmp/w; echo served > /tmp/w/index.html; exec httpd -f -p 8080 -h /tmp/w";
      expect(await apply(pod("web", serves), service)).toMatchObject({ code: 0 });
      const ready = ["wait", "--for=condition=Ready", "--timeout=180s"] as const;
      expect(await asTenant(...ready, "pod/web")).toMatchObject({ code: 0 });
      const path = "jsonpath={.status.loadBalancer.ingress[0].ip}";
      await expect
        .poll(async () => (address = (await asTenant("get", "service", "web", "-o", path)).out), {
          timeout: 120_000,
        })
        .not.toBe("");
      await expect.poll(() => page(address), { timeout: 120_000 }).toContain("served");
    });

    test("has a guard there that its tenant can neither change nor get around", async () => {
      expect((await apply(refusedPod)).err).toContain("level L1");
      const policy = "validatingadmissionpolicy/gpve-l1-pods.gpve.io";
      const binding = "validatingadmissionpolicybinding/gpve-l1-pods.gpve.io";
      const empty = JSON.stringify({ spec: { validations: [{ expression: "true" }] } });
      const tries = [
        ["delete", policy, "--wait=false"],
        ["delete", binding, "--wait=false"],
        ["patch", policy, "--type=merge", "-p", empty],
        ["delete", "--raw", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"],
        ["delete", "--raw", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"],
        ["delete", policy, "--wait=false", "--as=nobody", "--as-group=system:masters"],
        ["patch", "apiservice", "v1.admissionregistration.k8s.io", "-p", '{"spec":{"versionPriority":2}}'],
      ];
      for (const argv of tries) {
        const said = await asTenant(...argv);
        expect([argv, said]).toEqual([argv, expect.objectContaining({ code: 1 })]);
        expect(said.err).toMatch(/belongs-to-the-platform|system:masters/);
      }
      expect((await apply(refusedPod)).err).toContain("level L1");
      expect(await asTenant("get", policy, binding)).toMatchObject({ code: 0 });
    });

    test("loses no request of its workload, and nothing of its own", { timeout: 600_000 }, async () => {
      const failed: string[] = [];
      let asked = 0;
      let isOver = false;
      const asking = (async () => {
        while (!isOver) {
          asked++;
          const got = await page(address);
          if (!got.includes("served")) failed.push(`${new Date().toISOString()} ${got}`);
          await sleep(20);
        }
      })();
      const said = await ctl(gpve, "vc", "upgrade", "old", "--to", newest);
      isOver = true;
      await asking;
      console.info(said.err);
      expect(said).toMatchObject({ code: 0 });
      console.info(`${asked} requests, ${failed.length} failed`);
      expect(failed).toEqual([]);
      expect(await statusOf("old")).toMatchObject({ phase: "Running", kubernetesVersion: newest });
      expect(await word("old")).toBe("kept");
      const version = await asTenant("version", "-o", "json");
      expect(JSON.parse(version.out)).toMatchObject({ serverVersion: { gitVersion: `v${newest}` } });
      const { out } = await asTenant("get", "nodes", "--no-headers");
      expect(out).toMatch(new RegExp(`^worker-1 +Ready .*v${newest.replaceAll(".", "\\.")}$`, "m"));
      const restarts = "jsonpath={.items[*].status.containerStatuses[0].restartCount}";
      expect((await asTenant("get", "pods", "-o", restarts)).out).toBe("0");
      expect(
        readFileSync(join(gpve.data, "vclusters/clusters/old/saves/upgrade/store.jsonl")).length,
      ).toBeGreaterThan(1_000);
    });

    test("is guarded afterwards by files, and by nothing that was left", async () => {
      expect((await apply(refusedPod)).err).toContain("level L1");
      const left = await asTenant("get", "validatingadmissionpolicies", "-o", "name");
      expect([left.code, left.out]).toEqual([0, ""]);
    });
  });

  describe.skipIf(before === undefined || !isLong)("of one with an etcd of its own", () => {
    test("goes from one minor to the next with all that was in it", { timeout: 900_000 }, async () => {
      await make("own", before ?? "", "--tier", "Performance");
      const said = await ctl(gpve, "vc", "upgrade", "own", "--to", newest);
      console.info(said.err);
      expect(said).toMatchObject({ code: 0 });
      expect(await statusOf("own")).toMatchObject({ phase: "Running", kubernetesVersion: newest });
      expect(await word("own")).toBe("kept");
      const version = await kubectl(kubeconfig("own"), "version", "-o", "json");
      expect(JSON.parse(version.out)).toMatchObject({ serverVersion: { gitVersion: `v${newest}` } });
    });

    test("that cannot work has the data of before put back", { timeout: 900_000 }, async () => {
      const said = await ctl(gpve, "vc", "upgrade", "own", "--to", next);
      expect(said.code).not.toBe(0);
      expect(said.err).toContain(`virtual cluster own runs Kubernetes ${newest} as before`);
      expect(said.err).toContain("its etcd has the data that was saved");
      await expect
        .poll(() => statusOf("own"), { timeout: 150_000 })
        .toMatchObject({ phase: "Running", kubernetesVersion: newest });
      expect(await word("own")).toBe("kept");
      const made = await kubectl(kubeconfig("own"), "create", "configmap", "later", "--from-literal=a=b");
      expect(made).toMatchObject({ code: 0 });
      expect(await ctl(gpve, "vc", "delete", "own", "--yes")).toMatchObject({ code: 0 });
    });
  });
});
