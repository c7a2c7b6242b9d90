// Virtual clusters on a Linux host: keys, network, store, and the parts of a control plane as processes that outlive us.
//
//   FOLDER/clusters/<name>/cluster.json   what it is and in which phase
//   FOLDER/clusters/<name>/pki/           keys, certificates, kubeconfigs of its parts
//   FOLDER/store/                         databases and sockets of all stores
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { controlPlaneSizeOf, partBounds } from "@gpve/domain/vcluster/control-plane-size.ts";
import { API_PORT, BALANCER_PORT } from "@gpve/domain/vcluster/control-plane.ts";
import { type FrontRoute, serverName } from "@gpve/domain/vcluster/cluster-front.ts";
import { endpointAddress, type ExternalEtcdKeys } from "@gpve/domain/vcluster/backing-store.ts";
import { API_BALANCER, type ClusterPart } from "@gpve/domain/vcluster/cluster-part.ts";
import { partsOf, readClusterPart } from "@gpve/domain/vcluster/etcd.ts";
import {
  calledOf,
  type ClusterHost,
  type IssuedKubeconfig,
  type KeptCluster,
  type KubeconfigAsk,
} from "@gpve/domain/vcluster/ports.ts";
import { isBranch, replicaSlot } from "@gpve/domain/vcluster/overlay.ts";
import { totalWorkers } from "@gpve/domain/vcluster/vnode/worker-pools.ts";
import { MINIMAL_ENV } from "@gpve/kit/exec.ts";
import type { Store } from "@gpve/store/port.ts";
import { sumUsage } from "../guest-process/sum-usage.ts";
import type { SupervisedGuest } from "../guest-process/supervised-guest.ts";
import { writeIssuer } from "./cluster-issuer.ts";
import { ClusterFiles } from "./cluster-files.ts";
import { ClusterKeys } from "./cluster-keys.ts";
import type { ClusterNetwork } from "./network/cluster-network.ts";
import { EXTERNAL_KEYS, type StorePlace } from "./cluster-stores.ts";
import { EtcdPart } from "./etcd-part.ts";
import { equipCluster, writeRules } from "./equip-cluster.ts";
import { untilFurnished, untilReady } from "./await-api.ts";
import { howFrozen } from "./how-frozen.ts";
import type { LinuxClusterHostDeps } from "./linux-cluster-deps.ts";
import { OwnCredentials } from "./own-credentials.ts";
import type { KubeCredentials } from "./kube-api.ts";
import { bindRole, issueKubeconfig, revokeKubeconfig } from "./kubeconfigs.ts";
import { partCommand } from "./part-command.ts";
import { startOthers } from "./start-others.ts";

const STOP_MS = 10_000;

export class LinuxClusterHost implements ClusterHost {
  readonly #deps: LinuxClusterHostDeps;
  readonly #kept: ClusterFiles;
  readonly #own: OwnCredentials;
  readonly etcd: EtcdPart;

  constructor(deps: LinuxClusterHostDeps) {
    this.#deps = deps;
    this.#kept = new ClusterFiles(join(deps.folder, "clusters"));
    this.#own = new OwnCredentials(deps.clock);
    this.etcd = new EtcdPart(deps.processes);
  }

  list(): readonly KeptCluster[] {
    return this.#kept.list();
  }

  get(name: string): KeptCluster | undefined {
    return this.#kept.get(name);
  }

  save(cluster: KeptCluster): void {
    const before = this.get(cluster.name);
    const phaseAt = before?.phase === cluster.phase ? before.phaseAt : this.#deps.clock.now();
    this.#kept.save({ ...cluster, ...given({ phaseAt }) });
  }

  keepStoreKeys(name: string, pems: ExternalEtcdKeys): void {
    const keys = this.keys(name);
    for (const each of ["ca", "cert", "key"] as const) keys.take(EXTERNAL_KEYS[each], pems[each]);
  }

  authority(name: string, who: "workers" | "replica"): Promise<Readonly<Record<string, string>>> {
    return this.keys(name).authority(who);
  }

  takeAuthority(name: string, files: Readonly<Record<string, string>>): void {
    this.keys(name).takeAuthority(files);
    this.#own.forget(name);
  }

  overlayRefusal(): Promise<string | undefined> {
    return this.#deps.networks.overlayRefusal();
  }

  async provision(cluster: KeptCluster): Promise<{ readonly network: number }> {
    const { networks, processes } = this.#deps;
    if (processes.confinement.level !== "full")
      throw new AppError(
        "feature.unsupported",
        `virtual clusters need an agent that runs as root: ${processes.confinement.detail}`,
      );
    // It comes up while keys and network are made.
    this.#deps.stores.warmUp(cluster);
    const index = cluster.network ?? (await networks.claim(cluster));
    const placed = { ...cluster, network: index };
    this.save(placed);
    await (cluster.isNew === true ? this.#equip(placed) : this.#prepare(placed));
    return { network: index };
  }

  async start(
    cluster: KeptCluster,
    signal: AbortSignal,
    say: (line: string) => void,
    opened?: () => Promise<void>,
  ): Promise<void> {
    const { clock } = this.#deps;
    const began = clock.monotonic();
    const since = (): string => `${((clock.monotonic() - began) / 1000).toFixed(1)} s`;
    // After a boot of the machine the network is gone; certificates may have come near their end.
    await this.#prepare(cluster);
    if (isBranch(cluster)) {
      await this.#ready(cluster, signal);
      say(`its API server on another node answers after ${since()}`);
      return;
    }
    if (partsOf(cluster).includes(API_BALANCER)) await this.startPart(cluster, API_BALANCER);
    await this.serveStore(cluster, signal);
    say(`store answers after ${since()}`);
    await this.startPart(cluster, "kube-apiserver");
    await startOthers({
      startPart: (part) => this.startPart(cluster, part),
      ready: async (speaks) => {
        await this.#ready(cluster, signal, speaks);
        say(`API server is ready after ${since()}`);
      },
      opened,
    });
    say(`controllers and scheduler run after ${since()}`);
  }

  /** Resolves when its store can be spoken to. */
  async serveStore(cluster: KeptCluster, signal: AbortSignal): Promise<void> {
    await this.#deps.stores.serve(this.storePlace(cluster), signal, {
      start: () => this.startPart(cluster, "etcd"),
      ended: () => (this.etcd.isRestarting(cluster.name) ? undefined : this.#ended(cluster.name, "etcd")),
      alone: () => this.etcd.of(cluster)?.alone,
    });
  }

  async startPart(cluster: KeptCluster, part: ClusterPart): Promise<void> {
    const { processes } = this.#deps;
    const { name, spec } = cluster;
    const id = idOf(name, part);
    if (processes.get(id)?.hasExited === false) return;
    const { cpus, memoryBytes, goMemoryBytes } = partBounds(part, partsOf(cluster), controlPlaneSizeOf(spec));
    await processes.start({
      id,
      label: `${part} of virtual cluster ${name}`,
      ...(await partCommand(this.#deps, part, { ...this.storePlace(cluster), folder: this.#place(name) })),
      network: this.#network(cluster).namespaceFile,
      // Half of the memory for a little more work: most clusters of this tier do nothing most of the time.
      env: {
        ...MINIMAL_ENV,
        HOME: "/",
        TMPDIR: "/tmp",
        ...(spec.tier === "Starter" ? { GOGC: "25" } : {}),
        GOMEMLIMIT: String(goMemoryBytes),
      },
      bounds: { tasks: 4_096, cpus, memoryBytes },
    });
  }

  async furnish(cluster: KeptCluster, signal: AbortSignal): Promise<void> {
    // Without it the kubelet lets nobody exec or read logs.
    const kubelets = { kind: "User", name: "kube-apiserver-kubelet-client" } as const;
    const binding = { name: "gpve:kubelet-api", role: "system:kubelet-api-admin", subject: kubelets };
    if (!isBranch(cluster)) await bindRole(await this.credentials(cluster), binding, signal);
    // Workers elsewhere come when pods can be judged too.
    await untilFurnished({
      cluster: cluster.name,
      clock: this.#deps.clock,
      signal,
      credentials: () => this.credentials(cluster),
    });
  }

  async freeze(cluster: KeptCluster): Promise<string> {
    const { name } = cluster;
    const ending = partsOf(cluster).toReversed();
    const parts = ending.flatMap((part) => this.#running(name, part) ?? []);
    for (const part of parts) await part.pause();
    const paged = await Promise.all(parts.map((part) => part.pageOut()));
    return howFrozen(paged);
  }

  async thaw(cluster: KeptCluster, signal: AbortSignal): Promise<void> {
    await this.#proceed(cluster);
    await this.#ready(cluster, signal);
  }

  async stop(cluster: KeptCluster): Promise<void> {
    const { processes, stores } = this.#deps;
    // Who stands still does not hear that he shall end.
    await this.#proceed(cluster);
    await this.etcd.whileStopped(cluster.name, async () => {
      // The store last: without it an API server does not end.
      for (const part of partsOf(cluster).toReversed()) {
        const id = idOf(cluster.name, part);
        await processes.get(id)?.stop({ timeoutMs: STOP_MS });
        await processes.forget(id);
      }
    });
    if (!isBranch(cluster)) await stores.leave(cluster);
    this.#own.forget(cluster.name);
  }

  /** Pods run on while it sleeps, and are on its network. */
  async rest({ network, overlay, spec }: KeptCluster): Promise<void> {
    if (network === undefined || overlay !== undefined || totalWorkers(spec) > 0) return;
    await this.#deps.networks.rest(network);
  }

  async remove(name: string, say: (line: string) => void): Promise<void> {
    const { networks, stores } = this.#deps;
    const kept = this.get(name);
    if (kept?.network !== undefined) await networks.remove(kept.network);
    if (kept !== undefined && !isBranch(kept))
      await stores.remove({ cluster: kept, keys: this.keys(name) }, say);
    this.#kept.remove(name);
    await stores.stopIfIdle(this.list());
  }

  async unplug({ network }: KeptCluster): Promise<void> {
    if (network !== undefined) await this.#deps.networks.removeControl(network);
  }

  async letGo(cluster: KeptCluster, what: "control plane" | "all"): Promise<void> {
    const { networks, stores } = this.#deps;
    const { name, network } = cluster;
    await this.unplug(cluster);
    if (what === "all" && network !== undefined) await networks.remove(network);
    await stores.letGo(cluster);
    if (what === "all") this.#kept.remove(name);
    else this.keys(name).keepAuthority();
    await stores.stopIfIdle(this.list().filter((each) => each.name !== name));
  }

  async lookAgain({ network }: KeptCluster, slots: readonly number[]): Promise<void> {
    if (network !== undefined) await this.#deps.networks.lookAgain(network, slots);
  }

  endpoint(cluster: KeptCluster): string {
    const way = this.way(cluster);
    return way === undefined ? "" : this.#deps.front.url(way.port);
  }

  /** For its workers here; it wakes nobody. */
  workersEndpoint(cluster: KeptCluster): string {
    const isReplica = replicaSlot(cluster.overlay) !== undefined;
    return `https://${this.#network(cluster).address}:${isReplica ? BALANCER_PORT : API_PORT}`;
  }

  way(cluster: KeptCluster): Omit<FrontRoute, "mode"> | undefined {
    const { name, tenant, network } = cluster;
    if (network === undefined || isBranch(cluster)) return undefined;
    return {
      name,
      port: this.#deps.firstPort + network,
      serverNames: [serverName(calledOf(cluster), tenant)],
      target: { host: this.#network(cluster).address, port: API_PORT },
    };
  }

  isUp(cluster: KeptCluster): boolean {
    return partsOf(cluster).every((part) => this.#running(cluster.name, part) !== undefined);
  }

  usage(cluster: KeptCluster): ReturnType<ClusterHost["usage"]> {
    const parts = partsOf(cluster).flatMap((part) => this.#running(cluster.name, part) ?? []);
    return {
      ...sumUsage(parts.map((part) => part.usage())),
      startedAt: Math.min(this.#deps.clock.now(), ...parts.map(({ startedAt }) => startedAt)),
    };
  }

  async kubeconfig(cluster: KeptCluster, ask: KubeconfigAsk, signal: AbortSignal): Promise<IssuedKubeconfig> {
    const at = { cluster, server: ask.server ?? this.endpoint(cluster), keys: this.keys(cluster.name) };
    const credentials = await this.credentials(cluster);
    return issueKubeconfig(at, credentials, { ...ask, clock: this.#deps.clock }, signal);
  }

  async revokeKubeconfig(cluster: KeptCluster, id: string, signal: AbortSignal): Promise<void> {
    const at = { cluster, credentials: await this.credentials(cluster), ...this.#kit(cluster) };
    const deny = (): void => {
      // As it is now; and whoever has copies of its keys is to have this beside them.
      this.save({ ...(this.get(cluster.name) ?? cluster), keysAt: this.#deps.clock.now() });
      writeRules({ ...at, cluster: this.get(cluster.name) ?? cluster });
    };
    await revokeKubeconfig({ ...at, deny }, id, signal);
  }

  lastWords(cluster: KeptCluster): readonly string[] {
    const { name } = cluster;
    return partsOf(cluster).flatMap((part) =>
      this.#deps.processes
        .lastWords(idOf(name, part))
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => `${part}: ${line}`),
    );
  }

  onEnd(listener: (name: string, part: ClusterPart, why: string) => void): void {
    this.#deps.processes.onExit(({ id, exit }) => {
      const [name = "", part] = id.split(".");
      const known = readClusterPart(part);
      if (known !== undefined && exit.cause !== "stopped")
        listener(name, known, `${exit.cause}: ${exit.lastWords.trim().slice(-500)}`);
    });
  }

  async #prepare(cluster: KeptCluster): Promise<void> {
    const { networks } = this.#deps;
    const { externalEndpoints = [] } = cluster.spec;
    const issuer = isBranch(cluster) ? [] : await writeIssuer(this.#place(cluster.name), cluster);
    const out = [...externalEndpoints.map(endpointAddress), ...issuer];
    const egress = cluster.spec.egress === "nat";
    const more = { out, egress, ...given({ overlay: cluster.overlay }) };
    await networks.ensure(cluster.network ?? -1, more);
    if (!isBranch(cluster)) await this.#equip(cluster);
  }

  /** Keys and settings, for the address that it has or will have. */
  async #equip(cluster: KeptCluster): Promise<void> {
    const { address } = this.#network(cluster);
    await equipCluster({ cluster, address, nodeNames: this.#deps.nodeNames, ...this.#kit(cluster) });
  }

  #kit({ name }: KeptCluster): { readonly folder: string; readonly keys: ClusterKeys } {
    return { folder: this.#place(name), keys: this.keys(name) };
  }

  /** `speaks`: it answers, if only that it is not ready yet. */
  async #ready(cluster: KeptCluster, signal: AbortSignal, speaks?: () => void): Promise<void> {
    await untilReady({
      cluster: cluster.name,
      clock: this.#deps.clock,
      signal,
      credentials: () => this.credentials(cluster),
      ended: () => (isBranch(cluster) ? undefined : this.#ended(cluster.name, "kube-apiserver")),
      ...given({ speaks }),
    });
  }

  /** What the platform itself does in a cluster. */
  credentials(cluster: KeptCluster): Promise<KubeCredentials> {
    const at = { host: this.#network(cluster).address, port: API_PORT };
    return this.#own.of(cluster.name, this.keys(cluster.name), at);
  }

  /** What a part said last, where it has ended. */
  #ended(name: string, part: ClusterPart): string | undefined {
    if (this.#running(name, part) !== undefined) return undefined;
    return this.#deps.processes.lastWords(idOf(name, part));
  }

  async #proceed(cluster: KeptCluster): Promise<void> {
    for (const part of partsOf(cluster)) await this.#running(cluster.name, part)?.proceed();
  }

  #running(name: string, part: ClusterPart): SupervisedGuest | undefined {
    const found = this.#deps.processes.get(idOf(name, part));
    return found?.hasExited === true ? undefined : found;
  }

  #network({ name, network, overlay }: KeptCluster): ClusterNetwork {
    if (network === undefined) throw new AppError("internal.error", `virtual cluster ${name} has no network`);
    return this.#deps.networks.describe(network, replicaSlot(overlay));
  }

  /** What its store is found by. */
  storePlace(cluster: KeptCluster): StorePlace {
    return { cluster, keys: this.keys(cluster.name), address: this.#network(cluster).address };
  }

  /** Of one that has an etcd of its own and runs. */
  openEtcd(cluster: KeptCluster): Store {
    return this.#deps.stores.openEtcd(this.storePlace(cluster));
  }

  /** The keys of one of its clusters. */
  keys(name: string): ClusterKeys {
    return new ClusterKeys(join(this.#place(name), "pki"), this.#deps.clock);
  }

  #place(name: string): string {
    return join(this.#deps.folder, "clusters", name);
  }
}

function idOf(name: string, part: ClusterPart): string {
  return `${name}.${part}`;
}
