// The standby of a cluster's own etcd, without Kubernetes above it: two real members on two nodes that are folders of this machine,
// confined as they run there, and the line between them.
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SupervisedGuests } from "@gpve/agent/infrastructure/guest-process/supervised-guests.ts";
import { supervisorBinary } from "@gpve/agent/infrastructure/supervisor/build.ts";
import { ClusterNetworks } from "@gpve/agent/infrastructure/vcluster/network/cluster-network.ts";
import { ClusterStores } from "@gpve/agent/infrastructure/vcluster/cluster-stores.ts";
import { kubeCall } from "@gpve/agent/infrastructure/vcluster/kube-api.ts";
import { LinuxClusterHost } from "@gpve/agent/infrastructure/vcluster/linux-cluster-host.ts";
import { EtcdFollowers } from "@gpve/agent/infrastructure/vcluster/standby/etcd-followers.ts";
import { EtcdLeads } from "@gpve/agent/infrastructure/vcluster/standby/etcd-leads.ts";
import type { StoreProcess } from "@gpve/agent/infrastructure/vcluster/store-process.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { KeptStandby } from "@gpve/domain/vcluster/standby/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { exec } from "@gpve/kit/exec.ts";
import { silentLogger as log } from "@gpve/kit/logger.ts";
import { etcdProgram } from "../support/foreign-etcd.ts";
import { root } from "../support/gpve.ts";

const program = etcdProgram();
const canRun = process.getuid?.() === 0 && program !== undefined;
if (!canRun) console.warn("SKIPPED: standbys of etcds need root and etcd: apt-get install etcd-server");

const base64 = (text: string): string => Buffer.from(text).toString("base64");
const POLL = { timeout: 60_000, interval: 100 };
const { signal } = new AbortController();
const spec = readVirtualClusterSpec({ controlPlane: { tier: "Performance" } });
const standby = (generation: number): KeptStandby => ({
  name: "perf",
  tenant: "default",
  spec,
  version: "1.36.4",
  etcdVersion: "any",
  generation,
  secrets: {},
});

class Node {
  readonly folder: string;
  readonly processes: SupervisedGuests;
  readonly host: LinuxClusterHost;
  readonly leads: EtcdLeads;
  readonly followers: EtcdFollowers;
  readonly #stores: ClusterStores;

  constructor(folder: string, supervisor: string, instanceId: string) {
    const components = { program: () => program ?? "" };
    this.folder = folder;
    this.processes = new SupervisedGuests({
      dataFolder: folder,
      instanceId: `${instanceId}-vc`,
      supervisor,
      log,
    });
    const stores = new ClusterStores({
      folder: join(folder, "clusters"),
      sqlite: { stopIfIdle: async () => undefined } as unknown as StoreProcess,
      components,
      clock: systemClock,
    });
    this.#stores = stores;
    this.host = new LinuxClusterHost({
      folder,
      processes: this.processes,
      networks: new ClusterNetworks(exec, instanceId, join(folder, "run")),
      stores,
      components,
      self: { program: "none", args: [], folders: [] },
      clock: systemClock,
      nodeNames: [],
      front: { url: (port) => `https://localhost:${port}` },
      firstPort: 16_443,
    });
    const { host, processes } = this;
    const parts = { folder, files: stores.pairs, clock: systemClock, log };
    this.leads = new EtcdLeads({
      ...parts,
      clusters: () => host.list(),
      process: (cluster) => host.etcd.of(cluster),
      restart: (cluster) => host.etcd.restart(cluster, () => host.startPart(cluster, "etcd")),
      credentials: (cluster) => stores.etcdAdmin(host.storePlace(cluster)),
    });
    this.followers = new EtcdFollowers({ ...parts, processes, components });
  }

  get cluster(): KeptCluster {
    const found = this.host.get("perf");
    if (found === undefined) throw new Error("no cluster here");
    return found;
  }

  async make(): Promise<void> {
    const made = { name: "perf", tenant: "default", spec, version: "1.36.4", etcdVersion: "any" } as const;
    const { network } = await this.host.provision({ ...made, phase: "Running", isWanted: true });
    this.host.save({ ...made, network, phase: "Running", isWanted: true });
  }

  /** What its store answers within that time; undefined = nothing. */
  async call(path: string, body: unknown, withinMs = 8_000): Promise<string | undefined> {
    try {
      const soon = AbortSignal.timeout(withinMs);
      const { status, body: said } = await kubeCall(
        this.#stores.etcdAdmin(this.host.storePlace(this.cluster)),
        { method: "POST", path, body },
        soon,
      );
      return status === 200 ? said : undefined;
    } catch {
      return undefined;
    }
  }

  async put(key: string, withinMs?: number): Promise<boolean> {
    return (await this.call("/v3/kv/put", { key: base64(key), value: base64("1") }, withinMs)) !== undefined;
  }

  async keys(): Promise<readonly string[]> {
    const all = { key: base64("\0"), range_end: base64("\0"), keys_only: true };
    const { kvs = [] } = JSON.parse((await this.call("/v3/kv/range", all)) ?? "{}") as {
      kvs?: readonly { key: string }[];
    };
    return kvs.map(({ key }) => Buffer.from(key, "base64").toString());
  }

  state() {
    return this.leads.state("perf");
  }
}

/** As agents keep them: one for each generation that is wanted, opened again when it was cut. */
class Lines {
  readonly #from: Node;
  readonly #to: Node;
  readonly #open = new Set<Socket>();
  isCut = false;
  #over = false;

  constructor(from: Node, to: Node) {
    [this.#from, this.#to] = [from, to];
    void this.#run();
  }

  cut(): void {
    this.isCut = true;
    for (const each of this.#open) each.destroy();
  }

  heal(): void {
    this.isCut = false;
  }

  end(): void {
    this.#over = true;
    this.cut();
  }

  async #run(): Promise<void> {
    while (!this.#over) {
      if (!this.isCut && this.#open.size === 0 && this.#from.leads.wantedLines().length > 0) this.#connect();
      await systemClock.sleep(100);
    }
  }

  #connect(): void {
    const ends = [this.#from.leads.leadEnd("perf"), this.#to.followers.followEnd("perf")] as const;
    const [here, there] = [connect(ends[0].path), connect(ends[1].path)];
    here.pipe(there).pipe(here);
    for (const each of [here, there]) {
      this.#open.add(each);
      each.on("error", () => each.destroy());
      each.on("close", () => {
        here.destroy();
        there.destroy();
        this.#open.delete(each);
      });
    }
  }
}

describe.skipIf(!canRun)("the standby of an etcd", () => {
  let folder: string;
  let [a, b]: Node[] = [];
  let lines: Lines;
  const answered: string[] = [];
  const at = (node: Node | undefined): Node => node as Node;
  const write = async (key: string, withinMs?: number): Promise<boolean> => {
    const isAnswered = await at(a).put(key, withinMs);
    if (isAnswered) answered.push(key);
    return isAnswered;
  };
  const missing = async (node: Node): Promise<readonly string[]> => {
    const keys = new Set(await node.keys());
    return answered.filter((key) => !keys.has(key));
  };
  const joined = { isJoined: true, isConnected: true };

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-etcd-standby-"));
    const supervisor = await supervisorBinary({
      sourceFolder: join(root, "packages/supervisor"),
      cacheFolder: join(root, ".cache"),
    });
    a = new Node(join(folder, "a"), supervisor, `ta${process.pid}`);
    b = new Node(join(folder, "b"), supervisor, `tb${process.pid}`);
    await a.make();
    await a.host.serveStore(a.cluster, signal);
    a.leads.start();
    b.leads.start();
    lines = new Lines(a, b);
  });
  afterAll(async () => {
    lines?.end();
    for (const node of [a, b]) {
      if (node === undefined) continue;
      node.leads.close();
      await node.followers.unfollow("perf");
      for (const cluster of node.host.list()) {
        await node.host.stop(cluster);
        await node.host.remove(cluster.name, () => undefined);
      }
      node.processes.sweep();
      node.processes.close();
    }
    rmSync(folder, { recursive: true, force: true });
  });

  test("gets all that there is, and a vote", async () => {
    for (let key = 0; key < 20; key++) expect(await write(`/before/${key}`)).toBe(true);
    await at(b).followers.follow(standby(5));
    at(a).leads.lead("perf", { generation: 5, mode: "stream", boundMs: 0 });
    const began = performance.now();
    await expect.poll(() => at(a).state(), POLL).toMatchObject({ generation: 5, ...joined });
    console.info(`it has a vote after ${Math.round(performance.now() - began)} ms`);
    expect(await write("/with")).toBe(true);
    const uid = at(b).processes.get("perf.standby")?.uid ?? 0;
    const { stdout } = await exec("stat", ["-c", "%u %a", join(folder, "b/standbys/perf/etcd")]);
    expect([uid > 0x4000_0000, stdout.trim()]).toEqual([true, `${uid} 700`]);
  });

  test("confirms every write before it is answered: without it there is no answer", async () => {
    lines.cut();
    await expect.poll(() => at(a).state(), POLL).toMatchObject({ isJoined: true, isConnected: false });
    expect(await at(a).put("/waits", 3_000)).toBe(false);
    // A start makes no difference: it serves nobody that way.
    await at(a).host.etcd.restart(at(a).cluster, () => at(a).host.startPart(at(a).cluster, "etcd"));
    expect(await at(a).put("/waits", 3_000)).toBe(false);
    lines.heal();
    await expect.poll(() => write("/healed", 2_000), POLL).toBe(true);
    await expect.poll(() => at(a).state(), POLL).toMatchObject(joined);
  });

  test("is led by the member of the control plane, so that a write waits for one way only", async () => {
    const leads = async (): Promise<boolean> => {
      const said = JSON.parse((await at(a).call("/v3/maintenance/status", {})) ?? "{}") as {
        header?: { member_id?: string };
        leader?: string;
      };
      return said.leader !== undefined && said.leader === said.header?.member_id;
    };
    await expect.poll(leads, POLL).toBe(true);
    const times: number[] = [];
    for (let key = 0; key < 50; key++) {
      const began = performance.now();
      expect(await write(`/timed/${key}`)).toBe(true);
      times.push(performance.now() - began);
    }
    const sorted = times.toSorted((x, y) => x - y);
    console.info(
      `a write with a standby: p50 ${sorted[25]?.toFixed(1)} ms, p98 ${sorted[49]?.toFixed(1)} ms`,
    );
  });

  test("is gone on without on a server's word alone, and begins anew when it is back", async () => {
    lines.cut();
    await expect.poll(() => at(a).state(), POLL).toMatchObject({ isConnected: false });
    const began = performance.now();
    at(a).leads.lead("perf", { generation: 6, mode: "solo", boundMs: 0 });
    await expect.poll(() => write("/alone", 1_000), POLL).toBe(true);
    console.info(`answers alone ${Math.round(performance.now() - began)} ms after it was told to`);
    await expect.poll(() => at(a).state(), POLL).toMatchObject({ generation: 6, isJoined: false });
    // What was given up does not come back by itself, also where there is a line.
    lines.heal();
    await systemClock.sleep(1_500);
    expect(await write("/alone/2")).toBe(true);
    expect(() => at(a).leads.lead("perf", { generation: 5, mode: "stream", boundMs: 0 })).toThrow("is older");
    await at(b).followers.follow(standby(7));
    at(a).leads.lead("perf", { generation: 7, mode: "stream", boundMs: 0 });
    await expect.poll(() => at(a).state(), POLL).toMatchObject({ generation: 7, ...joined });
    const { members = [] } = JSON.parse((await at(a).call("/v3/cluster/member/list", {})) ?? "{}") as {
      members?: readonly { peerURLs: readonly string[] }[];
    };
    expect(members.map(({ peerURLs }) => peerURLs.join()).toSorted()).toEqual([
      "unix://first:0",
      "unix://s7:0",
    ]);
    expect(await missing(at(a))).toEqual([]);
  });

  test("has every write that was answered when it goes on, and the first one answers nothing more", async () => {
    let isOver = false;
    const writing = Promise.all(
      [1, 2, 3].map(async (writer) => {
        for (let key = 0; !isOver; key++) await write(`/during/${writer}/${key}`, 1_500);
      }),
    );
    await expect
      .poll(() => answered.filter((key) => key.startsWith("/during/")).length, POLL)
      .toBeGreaterThan(30);
    // Its power is lost; nobody hears of it any more.
    lines.cut();
    await at(a).processes.get("perf.etcd")?.kill();
    isOver = true;
    await writing;
    await at(b).followers.unfollow("perf");
    at(b).followers.adopt(standby(7));
    await at(b).make();
    const began = performance.now();
    await at(b).host.serveStore(at(b).cluster, signal);
    console.info(`answers on the other node after ${Math.round(performance.now() - began)} ms`);
    expect(await missing(at(b))).toEqual([]);
    console.info(`${answered.length} writes were answered, and all of them are there`);
    expect(await at(b).put("/after")).toBe(true);
    lines.heal();
    await at(a).processes.forget("perf.etcd");
    await at(a).host.startPart(at(a).cluster, "etcd");
    expect(await at(a).put("/after/lost", 4_000)).toBe(false);
  });

  test("leaves nothing on either node", async () => {
    lines.end();
    for (const node of [at(a), at(b)]) {
      node.leads.close();
      await node.host.stop(node.cluster);
      await node.host.remove("perf", () => undefined);
      await node.followers.unfollow("perf");
      expect(existsSync(join(node.folder, "clusters", "perf"))).toBe(false);
      expect(readdirSync(join(node.folder, "lines"))).toEqual([]);
      expect(node.processes.list()).toEqual([]);
    }
  });
});
