// The way of workers to several replicas without Kubernetes: the process that leads them, confined and in the network of a
// replica as it runs there, between servers that show certificates of the cluster. What needs Kubernetes is in
// vcluster-replicas.test.ts.
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SupervisedGuests } from "@gpve/agent/infrastructure/guest-process/supervised-guests.ts";
import { supervisorBinary } from "@gpve/agent/infrastructure/supervisor/build.ts";
import { ClusterNetworks } from "@gpve/agent/infrastructure/vcluster/network/cluster-network.ts";
import { ClusterStores } from "@gpve/agent/infrastructure/vcluster/cluster-stores.ts";
import { LinuxClusterHost } from "@gpve/agent/infrastructure/vcluster/linux-cluster-host.ts";
import type { StoreProcess } from "@gpve/agent/infrastructure/vcluster/store-process.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { exec } from "@gpve/kit/exec.ts";
import { silentLogger as log } from "@gpve/kit/logger.ts";
import { type Child, startChild } from "@gpve/kit/testing/child.ts";
import { mainFile, nodeBinary, nodeOptions, root } from "../support/gpve.ts";

const address = Object.values(networkInterfaces())
  .flatMap((all) => all ?? [])
  .find(({ family, internal }) => family === "IPv4" && !internal)?.address;
const refusal =
  process.getuid?.() !== 0 || address === undefined
    ? "no root, or no address"
    : await new ClusterNetworks(exec, "none", tmpdir()).overlayRefusal();
if (refusal !== undefined)
  console.warn(
    `SKIPPED: the way of workers to several replicas needs root, an IPv4 address and VXLAN (modprobe vxlan): ${refusal}`,
  );

/** What an API server is to those who are led to it: it says whether it is ready, and who it is. */
const SERVER = `
const { readFileSync } = require("node:fs");
const [host, folder, name] = process.argv.slice(1);
const pem = (file) => readFileSync(folder + "/" + file, "utf8");
require("node:https")
  .createServer({ cert: pem("apiserver.crt"), key: pem("apiserver.key") }, (asked, answer) => answer.end(name))
  .listen(6443, host, () => console.log("listens"));
`;

describe.skipIf(refusal !== undefined)("workers of a cluster of several replicas", () => {
  // One that no lab on this machine gives out.
  const NETWORK = 4_090;
  const subnet = `100.${80 + Math.floor(NETWORK / 256)}.${NETWORK % 256}`;
  const instanceId = `b${process.pid}`;
  const servers: Child[] = [];
  let folder: string;
  let processes: SupervisedGuests;
  let networks: ClusterNetworks;
  let host: LinuxClusterHost;
  const nodes = [{ node: "a", address: address ?? "", slot: 0 }];
  const cluster: KeptCluster = {
    name: "trio",
    tenant: "default",
    spec: readVirtualClusterSpec({ controlPlane: { tier: "Enterprise" } }),
    version: "1.36.4",
    network: NETWORK,
    overlay: { nodes, at: 0 },
    phase: "Running",
    isWanted: true,
  };

  const serverIn = async (namespaceFile: string, at: string, name: string): Promise<Child> => {
    const inside = [`--net=${namespaceFile}`, "--", nodeBinary, "-e", SERVER, at, join(folder, "pki"), name];
    const child = startChild("nsenter", inside);
    servers.push(child);
    await expect.poll(() => child.output(), { timeout: 150_000 }).toContain("listens");
    return child;
  };
  /** As a kubelet does: by the one address, which the certificate of whoever answers must name. */
  const ask = async (): Promise<string> => {
    const { namespaceFile } = networks.worker(NETWORK, 0);
    const url = `${host.workersEndpoint(cluster)}/whoever`;
    const authority = host.keys("trio").file("ca.crt");
    const inside = [`--net=${namespaceFile}`, "--", "curl", "-s", "-m", "5", "--cacert", authority, url];
    return (await exec("nsenter", inside, { okCodes: [0, 7, 28, 35, 52, 56] })).stdout;
  };

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-vc-balancer-"));
    const supervisor = await supervisorBinary({
      sourceFolder: join(root, "packages/supervisor"),
      cacheFolder: join(root, ".cache"),
    });
    processes = new SupervisedGuests({ dataFolder: folder, instanceId: `${instanceId}-vc`, supervisor, log });
    networks = new ClusterNetworks(exec, instanceId, join(folder, "run"));
    const components = { program: () => "" };
    host = new LinuxClusterHost({
      folder,
      processes,
      networks,
      stores: new ClusterStores({
        folder: join(folder, "clusters"),
        sqlite: { stopIfIdle: async () => undefined } as unknown as StoreProcess,
        components,
        clock: systemClock,
      }),
      components,
      self: { program: realpathSync(nodeBinary), args: [...nodeOptions, mainFile], folders: [root] },
      clock: systemClock,
      nodeNames: [],
      front: { url: (port) => `https://localhost:${port}` },
      firstPort: 16_443,
    });
    await host.provision(cluster);
    // The servers are nobody's and read copies: the cluster's own files are the cluster's.
    await exec("mkdir", [join(folder, "pki")]);
    for (const name of ["apiserver.crt", "apiserver.key"])
      writeFileSync(join(folder, "pki", name), host.keys("trio").read(name), { mode: 0o600 });
    await networks.ensureWorker(NETWORK, 0, cluster.overlay);
    await networks.ensureWorker(NETWORK, 1, cluster.overlay);
    const { namespace } = networks.worker(NETWORK, 1);
    await exec("ip", ["-n", namespace, "address", "add", `${subnet}.5/24`, "dev", "eth0"]);
  });
  afterAll(async () => {
    for (const server of servers) await server.stop();
    await host.stop(cluster);
    for (const slot of [0, 1]) await networks.removeWorker(NETWORK, slot);
    await host.remove("trio", () => undefined);
    processes.sweep();
    processes.close();
    rmSync(folder, { recursive: true, force: true });
  });

  test("are led to another replica until the one of their node serves, and when it no longer does", async () => {
    await host.startPart(cluster, "api-balancer");
    const there = await serverIn(networks.worker(NETWORK, 1).namespaceFile, `${subnet}.5`, "another");
    await expect.poll(ask, { timeout: 150_000 }).toBe("another");
    const own = await serverIn(networks.describe(NETWORK, 0).namespaceFile, `${subnet}.2`, "own");
    await expect.poll(ask, { timeout: 150_000 }).toBe("own");
    await own.stop();
    const began = performance.now();
    await expect.poll(ask, { timeout: 150_000 }).toBe("another");
    console.info(`led to another after ${Math.round(performance.now() - began)} ms`);
    await there.stop();
    await expect.poll(ask, { timeout: 150_000 }).toBe("");
    const uid = processes.get("trio.api-balancer")?.uid ?? 0;
    const { memoryAnonBytes = 0 } = processes.get("trio.api-balancer")?.usage() ?? {};
    console.info(`the balancer takes ${Math.round(memoryAnonBytes / 2 ** 20)} MiB`);
    expect(uid).toBeGreaterThan(0x4000_0000);
  });
});
