// The stores of virtual clusters without Kubernetes above them: a real etcd of a cluster's own, confined as it runs there, and
// the way out to one that somebody else runs. What needs Kubernetes is in vcluster-stores.test.ts.
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SupervisedGuests } from "@gpve/agent/infrastructure/guest-process/supervised-guests.ts";
import { supervisorBinary } from "@gpve/agent/infrastructure/supervisor/build.ts";
import { ClusterNetworks } from "@gpve/agent/infrastructure/vcluster/network/cluster-network.ts";
import { ClusterStores } from "@gpve/agent/infrastructure/vcluster/cluster-stores.ts";
import { LinuxClusterHost } from "@gpve/agent/infrastructure/vcluster/linux-cluster-host.ts";
import { kubeCall } from "@gpve/agent/infrastructure/vcluster/kube-api.ts";
import type { StoreProcess } from "@gpve/agent/infrastructure/vcluster/store-process.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { exec } from "@gpve/kit/exec.ts";
import { silentLogger as log } from "@gpve/kit/logger.ts";
import { root } from "../support/gpve.ts";
import { etcdProgram, ForeignEtcd } from "../support/foreign-etcd.ts";

const program = etcdProgram();
const canRun = process.getuid?.() === 0 && program !== undefined;
if (!canRun)
  console.warn("SKIPPED: stores of virtual clusters need root and etcd: apt-get install etcd-server");

const base64 = (text: string): string => Buffer.from(text).toString("base64");

describe.skipIf(!canRun)("the store of a virtual cluster", () => {
  const { signal } = new AbortController();
  const instanceId = `t${process.pid}`;
  let folder: string;
  let host: LinuxClusterHost;
  let stores: ClusterStores;
  let processes: SupervisedGuests;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-vc-etcd-"));
    const supervisor = await supervisorBinary({
      sourceFolder: join(root, "packages/supervisor"),
      cacheFolder: join(root, ".cache"),
    });
    processes = new SupervisedGuests({ dataFolder: folder, instanceId: `${instanceId}-vc`, supervisor, log });
    const components = { program: () => program ?? "" };
    stores = new ClusterStores({
      folder: join(folder, "clusters"),
      sqlite: { stopIfIdle: async () => undefined } as unknown as StoreProcess,
      components,
      clock: systemClock,
    });
    host = new LinuxClusterHost({
      folder,
      processes,
      networks: new ClusterNetworks(exec, instanceId, join(folder, "run")),
      stores,
      components,
      self: { program: "none", args: [], folders: [] },
      clock: systemClock,
      nodeNames: [],
      front: { url: (port) => `https://localhost:${port}` },
      firstPort: 16_443,
    });
  });
  afterAll(async () => {
    for (const cluster of host.list()) {
      await host.stop(cluster);
      await host.remove(cluster.name, () => undefined);
    }
    processes.sweep();
    processes.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const made = async (name: string, controlPlane: object): Promise<KeptCluster> => {
    const spec = readVirtualClusterSpec({ controlPlane });
    const cluster: KeptCluster = {
      name,
      tenant: "default",
      spec,
      version: "1.36.4",
      etcdVersion: "any",
      phase: "Running",
      isWanted: true,
    };
    const { network } = await host.provision(cluster);
    return { ...cluster, network };
  };
  const address = ({ network = 0 }: KeptCluster): string =>
    `100.${80 + Math.floor(network / 256)}.${network % 256}.2`;
  const place = (cluster: KeptCluster) => ({
    cluster,
    keys: host.keys(cluster.name),
    address: address(cluster),
  });
  const serve = (cluster: KeptCluster) =>
    stores.serve(place(cluster), signal, {
      start: () => host.startPart(cluster, "etcd"),
      ended: () => undefined,
      alone: () => undefined,
    });

  describe("of its own", () => {
    let cluster: KeptCluster;
    const call = (path: string, body: unknown) => {
      const keys = host.keys("own");
      const pems = { ca: keys.read("etcd-ca.crt"), cert: keys.read("apiserver-etcd-client.crt") };
      const key = keys.read("apiserver-etcd-client.key");
      const to = { host: address(cluster), port: 2379, ...pems, key };
      return kubeCall(to, { method: "POST", path, body }, signal);
    };
    const read = async (): Promise<string> => (await call("/v3/kv/range", { key: base64("/a") })).body;

    test("answers the API server's certificate, and nobody who has none", async () => {
      const began = performance.now();
      cluster = await made("own", { tier: "Performance" });
      await serve(cluster);
      console.info(`an etcd of its own answers after ${Math.round(performance.now() - began)} ms`);
      expect((await call("/v3/kv/put", { key: base64("/a"), value: base64("kept") })).status).toBe(200);
      expect(await read()).toContain(base64("kept"));
      const url = `https://${address(cluster)}:2379/health`;
      const { code, stdout } = await exec("curl", ["-sk", "-m", "5", url], { okCodes: [0, 35, 52, 55, 56] });
      expect([code === 0, stdout]).toEqual([false, ""]);
    });

    test("runs under the cluster's own user, who alone reads what is in it", async () => {
      const uid = processes.get("own.etcd")?.uid ?? 0;
      const { stdout } = await exec("stat", ["-c", "%u %a", join(folder, "clusters/own/etcd")]);
      expect([uid > 0x4000_0000, stdout.trim()]).toEqual([true, `${uid} 700`]);
    });

    test("stands still and goes on, ends and is started again with all that was in it", async () => {
      expect(await host.freeze(cluster)).not.toBe("");
      const silent = await exec("timeout", ["2", "cat", `/proc/${processes.get("own.etcd")?.pid}/status`]);
      expect(silent.stdout).toMatch(/^State:\s+T/m);
      await host.stop(cluster);
      expect(processes.get("own.etcd")).toBeUndefined();
      await serve(cluster);
      expect(await read()).toContain(base64("kept"));
    });

    test("goes without a trace", async () => {
      await host.stop(cluster);
      await host.remove("own", () => undefined);
      expect(existsSync(join(folder, "clusters/own"))).toBe(false);
      expect(existsSync(`/sys/class/net/vcb${cluster.network}`)).toBe(false);
      expect(readdirSync("/run/netns").filter((name) => name.includes(instanceId))).toEqual([]);
    });
  });

  describe("of somebody else", () => {
    let etcd: ForeignEtcd;
    let cluster: KeptCluster;
    beforeAll(async () => {
      etcd = await ForeignEtcd.start(folder);
      host.keepStoreKeys("out", etcd.client);
      cluster = await made("out", { backingStore: "external", externalEtcdEndpoint: etcd.url });
    });
    afterAll(() => etcd.stop());
    /** From where the API server would be. */
    const reach = (url: string) => {
      const pki = host.keys("out").file;
      const [ca, cert, key] = ["ca.crt", "client.crt", "client.key"].map((name) =>
        pki(`external-etcd-${name}`),
      );
      const keys = ["--cacert", ca ?? "", "--cert", cert ?? "", "--key", key ?? ""];
      const namespace = `gpve-${instanceId.slice(0, 8)}-vc${cluster.network}`;
      const inside = ["netns", "exec", namespace, "curl", "-s", "-m", "3", ...keys];
      return exec("ip", [...inside, url], { okCodes: [0, 7, 28, 35, 60] });
    };

    test("is reached by the control plane alone at its place, and nothing else is", async () => {
      await serve(cluster);
      expect((await reach(`${etcd.url}/health`)).stdout).toContain("true");
      const { code } = await reach(etcd.url.replace(/\d+$/, "22"));
      expect(code).toBe(28);
    });

    test("loses what the cluster had there, and only that", async () => {
      const { prefix = "" } = stores.access(place(cluster));
      await etcd.put(`${prefix}/pods/a`, "1");
      await etcd.put("/others", "2");
      await host.remove("out", (line) => expect.unreachable(line));
      expect(await etcd.keys()).toEqual(["/others"]);
    });
  });
});
