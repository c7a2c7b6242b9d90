// Workers of virtual clusters on a Linux host.
//
//   FOLDER/clusters/<cluster>/vnodes/<name>/vnode.json   what it is
//   …/etc/         settings and keys of its programs
//   …/containerd/  images and containers          …/kubelet/  volumes of pods
//   …/view/        its mount namespace, as a file …/log/      what its pods print
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, totalmem } from "node:os";
import { dirname, join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import { isBranch, isOwnSlot } from "@gpve/domain/vcluster/overlay.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { IMAGES } from "@gpve/domain/vcluster/vnode/images.ts";
import type { KataRuntime } from "@gpve/domain/vcluster/vnode/kata.ts";
import { type NodeNameServers, resolvConf } from "@gpve/domain/vcluster/vnode/name-servers.ts";
import type { VnodeHost, VnodePod, VnodeUsage } from "@gpve/domain/vcluster/vnode/ports.ts";
import {
  type KeptVnode,
  podNetwork,
  vnodeName,
  VNODE_PARTS,
  type VnodePart,
} from "@gpve/domain/vcluster/vnode/vnode.ts";
import {
  CONTAINERD_SOCKET,
  containerdConfig,
  kubeletConfig,
  kubeProxyConfig,
  podNetworkConfig,
  type VnodeHostFacts,
  type VnodePlace,
  workerRules,
} from "@gpve/domain/vcluster/vnode/vnode-files.ts";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { type Exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { sumUsage } from "../guest-process/sum-usage.ts";
import type { SupervisedGuests } from "../guest-process/supervised-guests.ts";
import type { ClusterKeys } from "../vcluster/cluster-keys.ts";
import type { ClusterNetworks } from "../vcluster/network/cluster-network.ts";
import { keptVnodes, vnodeId } from "./kept-vnodes.ts";
import type { VnodeDevices } from "./devices/vnode-devices.ts";
import { networkOf } from "./network-of.ts";
import { VnodeCgroups } from "./vnode-cgroups.ts";
import { importImages, type WorkerProgram } from "./vnode-images.ts";
import { ensureVnodeKeys } from "./vnode-keys.ts";
import { VnodeView } from "./vnode-view.ts";
import { VnodeVolumes } from "./vnode-volumes.ts";
import { removeVolumes, settleVolumes } from "./volumes-place.ts";

export interface LinuxVnodeHostDeps {
  /** DIR/vclusters */
  readonly folder: string;
  readonly instanceId: string;
  readonly exec: Exec;
  readonly clock: Clock;
  readonly processes: Pick<SupervisedGuests, "start" | "get" | "forget" | "onExit" | "lastWords">;
  readonly networks: ClusterNetworks;
  readonly keysOf: (cluster: string) => ClusterKeys;
  /** Where the API server of a cluster is, for its workers. */
  readonly endpoint: (cluster: KeptCluster) => string;
  /** Of a component that workers are made of. */
  readonly program: WorkerProgram;
  /** What runs pods of level L2; throws what this node lacks for it. */
  readonly kata: () => Promise<KataRuntime>;
  /** The folder for persistent volumes on that storage, which is ready; throws why there is none on this node. */
  readonly volumeStorage: (storage: string) => Promise<string>;
  readonly devices: Pick<VnodeDevices, "settle">;
  readonly nameServers: () => NodeNameServers;
  /** Of Kubernetes, in the cluster's version. */
  readonly kubernetes: (version: string, program: string) => string;
}

const SOCKET_MS = 60_000;
const PODS_END_MS = 5_000;

export class LinuxVnodeHost implements Omit<VnodeHost, "accelerator"> {
  readonly #deps: LinuxVnodeHostDeps;
  readonly #cgroups: VnodeCgroups;

  constructor(deps: LinuxVnodeHostDeps) {
    this.#deps = deps;
    this.#cgroups = new VnodeCgroups(deps.instanceId, deps.clock);
  }

  list(cluster: string): readonly KeptVnode[] {
    return keptVnodes(this.#deps.folder, cluster);
  }

  save(cluster: string, vnode: KeptVnode): void {
    const folder = this.#place(cluster, vnode);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    writeFileAtomic(join(folder, "vnode.json"), `${JSON.stringify(vnode)}\n`);
  }

  async start(cluster: KeptCluster, vnode: KeptVnode, signal: AbortSignal): Promise<void> {
    const { networks, exec } = this.#deps;
    const { namespaceFile } = await networks.ensureWorker(networkOf(cluster), vnode.slot, cluster.overlay);
    this.#cgroups.ensure(vnodeId(cluster.name, vnode), vnode.size);
    const place = await this.#write(cluster, vnode);
    const inside = (...argv: readonly string[]) => exec("nsenter", [`--net=${namespaceFile}`, "--", ...argv]);
    await inside("sysctl", "-q", "-w", "net.ipv4.ip_forward=1");
    await inside("nft", "-f", place.file("rules.nft"));
    const on = cluster.spec.volumeStorage;
    const storage = on === undefined ? undefined : await this.#deps.volumeStorage(on);
    settleVolumes(this.#place(cluster.name, vnode), cluster.name, storage);
    const view = this.#view(cluster.name, vnode);
    await view.ensure(
      createHash("md5").update(`${this.#deps.instanceId} ${place.cgroup}`).digest("hex"),
      place.file("resolv.conf"),
    );
    await this.#startPart(cluster, vnode, "containerd");
    await this.#socket(cluster.name, vnode, signal);
    const images = { program: this.#deps.program, hasIngress: cluster.spec.ingress !== undefined };
    await importImages(view, join(this.#deps.folder, "images"), images, signal);
    await this.#startPart(cluster, vnode, "kubelet");
    await this.#startPart(cluster, vnode, "kube-proxy");
  }

  async repair(cluster: KeptCluster, vnode: KeptVnode, signal: AbortSignal): Promise<void> {
    // Pods that lost their network do not get it back.
    const { namespaceFile } = this.#deps.networks.worker(networkOf(cluster), vnode.slot);
    if (!existsSync(namespaceFile) || !this.#view(cluster.name, vnode).isThere)
      await this.stop(cluster, vnode);
    await this.start(cluster, vnode, signal);
  }

  async restartPart(cluster: KeptCluster, vnode: KeptVnode, part: VnodePart): Promise<void> {
    await this.#write(cluster, vnode);
    await this.#end(cluster.name, vnode, part);
    await this.#startPart(cluster, vnode, part);
  }

  async exchange(cluster: KeptCluster, vnode: KeptVnode): Promise<void> {
    for (const part of ["kubelet", "kube-proxy"] as const) await this.restartPart(cluster, vnode, part);
  }

  async #startPart(cluster: KeptCluster, vnode: KeptVnode, part: VnodePart): Promise<void> {
    const { processes, networks, program } = this.#deps;
    const id = partId(cluster.name, vnode, part);
    const running = processes.get(id);
    if (running !== undefined && !running.hasExited) return;
    const { namespaceFile } = networks.worker(networkOf(cluster), vnode.slot);
    const command = this.#command(cluster, vnode, part);
    const folders = [dirname(program("containerd", "containerd")), MINIMAL_ENV["PATH"] ?? ""];
    await processes.start({
      id,
      label: `${part} of ${vnode.name} of virtual cluster ${cluster.name}`,
      ...this.#view(cluster.name, vnode).enter(command.program, command.args),
      files: [],
      asHost: true,
      network: namespaceFile,
      env: { ...MINIMAL_ENV, PATH: folders.join(":"), HOME: "/" },
      bounds: { tasks: 16_384 },
    });
  }

  async stop(cluster: KeptCluster, vnode: KeptVnode): Promise<void> {
    // First, else it would start again what ends.
    await this.#end(cluster.name, vnode, "kubelet");
    await this.#cgroups.end(vnodeId(cluster.name, vnode), PODS_END_MS);
    await this.#end(cluster.name, vnode, "kube-proxy");
    await this.#end(cluster.name, vnode, "containerd");
    await this.#view(cluster.name, vnode).remove();
  }

  async remove(cluster: KeptCluster, vnode: KeptVnode): Promise<void> {
    const { networks } = this.#deps;
    await this.#cgroups.remove(vnodeId(cluster.name, vnode));
    if (cluster.network !== undefined) await networks.removeWorker(cluster.network, vnode.slot);
    removeVolumes(this.#place(cluster.name, vnode));
    rmSync(this.#place(cluster.name, vnode), { recursive: true, force: true });
  }

  async route(cluster: KeptCluster): Promise<void> {
    const { networks } = this.#deps;
    const index = networkOf(cluster);
    const vnodes = this.list(cluster.name).filter(({ slot }) =>
      existsSync(networks.worker(index, slot).namespaceFile),
    );
    for (const slot of reachable(cluster, vnodes)) {
      const network = podNetworkOf(cluster, { slot, name: vnodeName(slot) });
      const via = networks.worker(index, slot).address;
      if (!isBranch(cluster)) await networks.route(index, undefined, { network, via });
      for (const from of vnodes.filter((each) => each.slot !== slot))
        await networks.route(index, from.slot, { network, via });
    }
  }

  isUp(cluster: KeptCluster, vnode: KeptVnode): boolean {
    return (
      VNODE_PARTS.every((part) => this.#running(cluster.name, vnode, part) !== undefined) &&
      existsSync(this.#deps.networks.worker(networkOf(cluster), vnode.slot).namespaceFile) &&
      this.#view(cluster.name, vnode).isThere
    );
  }

  usage(cluster: KeptCluster, vnode: KeptVnode): VnodeUsage {
    const programs = VNODE_PARTS.flatMap((part) => this.#running(cluster.name, vnode, part)?.usage() ?? []);
    return sumUsage([...programs, this.#cgroups.usage(vnodeId(cluster.name, vnode))]);
  }

  /** A pod has a folder of logs, by its name, and while it runs a cgroup, by its uid. */
  pods(cluster: KeptCluster, vnode: KeptVnode): readonly VnodePod[] {
    const folder = join(this.#place(cluster.name, vnode), "log", "pods");
    if (!existsSync(folder)) return [];
    const running = this.#cgroups.pods(vnodeId(cluster.name, vnode));
    return readdirSync(folder)
      .map((entry) => entry.split("_"))
      .flatMap(([namespace = "", name = "", uid = ""]) =>
        running.has(uid) ? [{ namespace, name, uid }] : [],
      );
  }

  makeVolume({ name }: KeptCluster, vnode: KeptVnode, volume: string, bytes: number): Promise<void> {
    return this.#volumes(name, vnode).make(volume, bytes);
  }

  removeVolume({ name }: KeptCluster, vnode: KeptVnode, volume: string): Promise<void> {
    return this.#volumes(name, vnode).remove(volume);
  }

  volumes(cluster: string, vnode: KeptVnode): readonly string[] {
    return this.#volumes(cluster, vnode).list();
  }

  putVolumesAside(cluster: string, vnode: KeptVnode): string | undefined {
    const { folder, clock } = this.#deps;
    const time = new Date(clock.now()).toISOString().replaceAll(":", "-");
    return this.#volumes(cluster, vnode).putAside(join(folder, "left", cluster, `${vnode.name}-${time}`));
  }

  volumeBytes(cluster: string, vnode?: KeptVnode): number {
    const all = vnode === undefined ? this.list(cluster) : [vnode];
    return all.reduce((sum, each) => sum + this.#volumes(cluster, each).bytes(), 0);
  }

  lastWords(cluster: string, vnode: KeptVnode): readonly string[] {
    return VNODE_PARTS.flatMap((part) =>
      this.#deps.processes
        .lastWords(partId(cluster, vnode, part))
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => `${vnode.name} ${part}: ${line}`),
    );
  }

  onEnd(listener: (cluster: string, vnode: string, part: VnodePart, why: string) => void): void {
    this.#deps.processes.onExit(({ id, exit }) => {
      const [, cluster = "", slot, name] = /^([^.]+)\.w(\d+)-(.+)$/.exec(id) ?? [];
      const part = VNODE_PARTS.find((each) => each === name);
      const vnode = this.list(cluster).find((each) => String(each.slot) === slot);
      if (part === undefined || vnode === undefined || exit.cause === "stopped") return;
      listener(cluster, vnode.name, part, `${exit.cause}: ${exit.lastWords.trim().slice(-500)}`);
    });
  }

  async #end(cluster: string, vnode: KeptVnode, part: VnodePart): Promise<void> {
    const { processes } = this.#deps;
    const id = partId(cluster, vnode, part);
    await processes.get(id)?.stop({ timeoutMs: PODS_END_MS });
    await processes.forget(id);
  }

  async #write(cluster: KeptCluster, vnode: KeptVnode): Promise<VnodePlace> {
    const { keysOf, endpoint, clock } = this.#deps;
    const place = this.#paths(cluster, vnode);
    const folder = place.file("");
    mkdirSync(join(folder, "net.d"), { recursive: true, mode: 0o700 });
    const server = endpoint(cluster);
    const wanted = { folder, name: vnode.name, address: place.address, server };
    await ensureVnodeKeys(keysOf(cluster.name), wanted, clock);
    const facts = this.#facts();
    const kata = cluster.spec.isolationLevel === "L2" ? await this.#deps.kata() : undefined;
    const devices = await this.#deps.devices.settle(cluster.name, vnode);
    const files: Readonly<Record<string, string>> = {
      "containerd.toml": containerdConfig({ ...place, ...given({ kata, devices }) }, facts),
      "kubelet.json": kubeletConfig(cluster.spec, place, vnode.size, facts),
      "kube-proxy.json": kubeProxyConfig(cluster.spec, place, facts),
      "net.d/10-pods.conflist": podNetworkConfig(place),
      "rules.nft": workerRules(cluster.spec.podCidr),
      "resolv.conf": resolvConf(cluster.spec, this.#deps.nameServers),
    };
    for (const [name, text] of Object.entries(files)) writeFileAtomic(place.file(name), text);
    return place;
  }

  #command(
    cluster: KeptCluster,
    vnode: KeptVnode,
    part: VnodePart,
  ): { readonly program: string; readonly args: readonly string[] } {
    const { program, kubernetes } = this.#deps;
    const { file, address } = this.#paths(cluster, vnode);
    if (part === "containerd")
      return { program: program("containerd", "containerd"), args: ["--config", file("containerd.toml")] };
    if (part === "kube-proxy")
      return { program: kubernetes(cluster.version, part), args: [`--config=${file("kube-proxy.json")}`] };
    return {
      program: kubernetes(cluster.version, part),
      args: [
        `--config=${file("kubelet.json")}`,
        `--kubeconfig=${file("kubelet.kubeconfig")}`,
        `--hostname-override=${vnode.name}`,
        `--node-ip=${address}`,
        "--root-dir=/var/lib/kubelet",
      ],
    };
  }

  /** containerd can be spoken to when its socket is there, in its own view. */
  async #socket(cluster: string, vnode: KeptVnode, signal: AbortSignal): Promise<void> {
    const { clock, processes } = this.#deps;
    const until = clock.monotonic() + SOCKET_MS;
    for (;;) {
      const running = this.#running(cluster, vnode, "containerd");
      if (running !== undefined && existsSync(join(`/proc/${running.pid}/root`, CONTAINERD_SOCKET))) return;
      if (running === undefined || clock.monotonic() > until) {
        const words = processes
          .lastWords(partId(cluster, vnode, "containerd"))
          .trim()
          .slice(-500);
        throw new AppError("internal.error", `containerd of ${vnode.name} does not come up: ${words}`);
      }
      await clock.sleep(50, signal);
    }
  }

  #facts(): VnodeHostFacts {
    return {
      cgroupVersion: this.#cgroups.version,
      cpus: availableParallelism(),
      memoryBytes: totalmem(),
      mayLowerOomScore: hasSysResource(readFileSync("/proc/self/status", "utf8")),
      filtersBridges: existsSync("/proc/sys/net/bridge/bridge-nf-call-iptables"),
    };
  }

  #paths(cluster: KeptCluster, vnode: KeptVnode): VnodePlace {
    const { networks, program } = this.#deps;
    const folder = this.#place(cluster.name, vnode);
    return {
      name: vnode.name,
      address: networks.worker(networkOf(cluster), vnode.slot).address,
      podNetwork: podNetworkOf(cluster, vnode),
      ...(cluster.overlay === undefined ? {} : { mtu: networks.mtu(networkOf(cluster)) }),
      file: (name) => join(folder, "etc", name),
      containers: join(folder, "containerd"),
      cgroup: this.#cgroups.path(vnodeId(cluster.name, vnode)),
      plugins: dirname(program("cni-plugins", "bridge")),
      runc: program("runc", "runc"),
      pauseImage: IMAGES.pause,
    };
  }

  #volumes(cluster: string, vnode: KeptVnode): VnodeVolumes {
    return new VnodeVolumes(this.#place(cluster, vnode), this.#deps.exec);
  }

  #view(cluster: string, vnode: KeptVnode): VnodeView {
    return new VnodeView(this.#place(cluster, vnode), this.#deps.exec);
  }

  #running(cluster: string, vnode: KeptVnode, part: VnodePart): GuestProcess | undefined {
    const found = this.#deps.processes.get(partId(cluster, vnode, part));
    return found?.hasExited === true ? undefined : found;
  }

  #place(cluster: string, { name }: KeptVnode): string {
    return join(this.#deps.folder, "clusters", cluster, "vnodes", name);
  }
}

function partId(cluster: string, vnode: KeptVnode, part: VnodePart): string {
  return `${vnodeId(cluster, vnode)}-${part}`;
}

/** Places of workers that packets can be sent to; those on other nodes are known by what the cluster shall have. */
function reachable({ overlay, spec }: KeptCluster, here: readonly KeptVnode[]): readonly number[] {
  const own = here.map(({ slot }) => slot);
  if (overlay === undefined) return own;
  const others = Array.from({ length: spec.workers }, (_none, slot) => slot);
  return [...own, ...others.filter((slot) => !isOwnSlot(overlay, slot))];
}

function podNetworkOf({ spec }: KeptCluster, { slot, name }: Pick<KeptVnode, "slot" | "name">): string {
  const found = podNetwork(spec.podCidr, slot);
  if (found !== undefined) return found;
  throw new AppError("capacity.exceeded", `${spec.podCidr} has no room for the pods of ${name}`);
}

/** Bit 24 of a process's capabilities. */
function hasSysResource(status: string): boolean {
  const mask = /^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? "0";
  return ((BigInt(`0x${mask}`) >> 24n) & 1n) === 1n;
}
