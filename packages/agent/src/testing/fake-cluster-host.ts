// A host of virtual clusters in memory. What is to go wrong is put into `broken`.
import { AppError } from "@gpve/contracts/errors.ts";
import type { FrontRoute } from "@gpve/domain/vcluster/cluster-front.ts";
import type { ExternalEtcdKeys } from "@gpve/domain/vcluster/backing-store.ts";
import type { ClusterPart } from "@gpve/domain/vcluster/cluster-part.ts";
import type {
  ClusterHost,
  IssuedKubeconfig,
  KeptCluster,
  KubeconfigAsk,
} from "@gpve/domain/vcluster/ports.ts";

export class FakeClusterHost implements ClusterHost {
  readonly kept = new Map<string, KeptCluster>();
  readonly running = new Set<string>();
  readonly storeKeys = new Map<string, ExternalEtcdKeys>();
  readonly authorities = new Map<string, Readonly<Record<string, string>>>();
  readonly frozen = new Set<string>();
  /** What has nothing of this machine but its number. */
  readonly resting = new Set<string>();
  /** Whose control plane has its address here. */
  readonly plugged = new Set<string>();
  /** What was another's from then on. */
  readonly gone: string[] = [];
  readonly networks = new Set<string>();
  readonly started: string[] = [];
  readonly furnished: string[] = [];
  readonly broken = new Set<
    "provision" | "start" | "controllers" | "part" | "furnish" | "freeze" | "overlay" | "stop"
  >();
  readonly phases: string[] = [];
  #ended: (name: string, part: ClusterPart, why: string) => void = () => undefined;

  list(): readonly KeptCluster[] {
    return [...this.kept.values()];
  }

  get(name: string): KeptCluster | undefined {
    return this.kept.get(name);
  }

  save(cluster: KeptCluster): void {
    if (this.kept.get(cluster.name)?.phase !== cluster.phase) this.phases.push(cluster.phase);
    this.kept.set(cluster.name, cluster);
  }

  keepStoreKeys(name: string, keys: ExternalEtcdKeys): void {
    this.storeKeys.set(name, keys);
  }

  async authority(
    _name: string,
    who: "workers" | "replica" = "workers",
  ): Promise<Readonly<Record<string, string>>> {
    return { "ca.crt": "CA", "ca.key": "KEY", ...(who === "replica" ? { "sa.key": "SA" } : {}) };
  }

  takeAuthority(name: string, files: Readonly<Record<string, string>>): void {
    this.authorities.set(name, files);
  }

  async overlayRefusal(): Promise<string | undefined> {
    return this.broken.has("overlay") ? "this node cannot make a VXLAN device" : undefined;
  }

  async provision({ name, network = 7 }: KeptCluster): Promise<{ readonly network: number }> {
    this.#mayBreak("provision");
    this.networks.add(name);
    return { network };
  }

  async start(
    { name }: KeptCluster,
    _signal: AbortSignal,
    say: (line: string) => void,
    opened?: () => Promise<void>,
  ): Promise<void> {
    this.#mayBreak("start");
    this.resting.delete(name);
    this.plugged.add(name);
    await opened?.();
    this.#mayBreak("controllers");
    this.running.add(name);
    say("started");
  }

  async startPart({ name }: KeptCluster, part: ClusterPart): Promise<void> {
    this.#mayBreak("part");
    this.started.push(`${name}.${part}`);
  }

  async furnish({ name }: KeptCluster): Promise<void> {
    this.#mayBreak("furnish");
    this.furnished.push(name);
  }

  async freeze({ name }: KeptCluster): Promise<string> {
    this.#mayBreak("freeze");
    this.frozen.add(name);
    return "frozen";
  }

  async thaw({ name }: KeptCluster): Promise<void> {
    this.frozen.delete(name);
  }

  way({ name, network }: KeptCluster): Omit<FrontRoute, "mode"> | undefined {
    return network === undefined
      ? undefined
      : { name, port: 16_443 + network, serverNames: [], target: { host: "100.80.7.2", port: 6_443 } };
  }

  async stop({ name }: KeptCluster): Promise<void> {
    this.#mayBreak("stop");
    this.running.delete(name);
    this.frozen.delete(name);
  }

  async rest({ name }: KeptCluster): Promise<void> {
    if (this.running.has(name)) throw new Error(`${name} runs`);
    this.resting.add(name);
  }

  async unplug({ name }: KeptCluster): Promise<void> {
    this.plugged.delete(name);
  }

  async letGo({ name }: KeptCluster, what: "control plane" | "all"): Promise<void> {
    this.gone.push(`${what} of ${name}`);
    this.plugged.delete(name);
    if (what === "all") await this.remove(name);
  }

  async lookAgain({ name }: KeptCluster, slots: readonly number[]): Promise<void> {
    this.gone.push(`address of ${name} for ${slots.join(",")}`);
  }

  async remove(name: string): Promise<void> {
    this.networks.delete(name);
    this.kept.delete(name);
  }

  endpoint(): string {
    return "https://100.80.7.2:6443";
  }

  isUp({ name }: KeptCluster): boolean {
    return this.running.has(name);
  }

  usage(): ReturnType<ClusterHost["usage"]> {
    return { memoryBytes: 1, cpuSeconds: 1, startedAt: 0 };
  }

  async kubeconfig(cluster: KeptCluster, { user }: KubeconfigAsk): Promise<IssuedKubeconfig> {
    return { id: "0123456789abcdef", kubeconfig: `${user}@${cluster.name}`, expiresAt: 1 };
  }

  async revokeKubeconfig(_cluster: KeptCluster, id: string): Promise<void> {
    if (id !== "0123456789abcdef") throw new AppError("object.not_found", "no such kubeconfig");
  }

  lastWords(): readonly string[] {
    return ["kube-apiserver: hello"];
  }

  onEnd(listener: (name: string, part: ClusterPart, why: string) => void): void {
    this.#ended = listener;
  }

  /** A part ends that nobody told to. */
  end(name: string, part: ClusterPart): void {
    this.#ended(name, part, "crashed: boom");
  }

  #mayBreak(what: "provision" | "start" | "controllers" | "part" | "furnish" | "freeze" | "stop"): void {
    if (this.broken.has(what)) throw new AppError("internal.error", `${what} is broken`);
  }
}
