// Workers of both kinds: programs in namespaces (L1), and machines (L3). All workers of a cluster are of one.
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { VnodeHost, VnodePod, VnodeUsage } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { KeptVnode, VnodePart } from "@gpve/domain/vcluster/vnode/vnode.ts";
import type { LinuxVnodeHost } from "./linux-vnode-host.ts";
import type { MachineVnodeHost } from "./machine/machine-vnode-host.ts";

export class VnodeHosts implements VnodeHost {
  readonly #programs: LinuxVnodeHost;
  readonly #machines: MachineVnodeHost;

  constructor(programs: LinuxVnodeHost, machines: MachineVnodeHost) {
    this.#programs = programs;
    this.#machines = machines;
  }

  list(cluster: string): readonly KeptVnode[] {
    return this.#programs.list(cluster);
  }

  save(cluster: string, vnode: KeptVnode): void {
    this.#programs.save(cluster, vnode);
  }

  start(cluster: KeptCluster, vnode: KeptVnode, signal: AbortSignal): Promise<void> {
    return this.#of(cluster).start(cluster, vnode, signal);
  }

  repair(cluster: KeptCluster, vnode: KeptVnode, signal: AbortSignal): Promise<void> {
    return isMachine(cluster)
      ? this.#machines.start(cluster, vnode, signal)
      : this.#programs.repair(cluster, vnode, signal);
  }

  restartPart(cluster: KeptCluster, vnode: KeptVnode, part: VnodePart): Promise<void> {
    return this.#of(cluster).restartPart(cluster, vnode, part);
  }

  exchange(cluster: KeptCluster, vnode: KeptVnode, signal: AbortSignal): Promise<void> {
    return this.#of(cluster).exchange(cluster, vnode, signal);
  }

  stop(cluster: KeptCluster, vnode: KeptVnode): Promise<void> {
    return this.#of(cluster).stop(cluster, vnode);
  }

  async remove(cluster: KeptCluster, vnode: KeptVnode): Promise<void> {
    await this.#of(cluster).remove(cluster, vnode);
  }

  route(cluster: KeptCluster): Promise<void> {
    return this.#of(cluster).route(cluster);
  }

  isUp(cluster: KeptCluster, vnode: KeptVnode): boolean {
    return this.#of(cluster).isUp(cluster, vnode);
  }

  usage(cluster: KeptCluster, vnode: KeptVnode): VnodeUsage {
    return isMachine(cluster) ? this.#machines.usage(cluster, vnode) : this.#programs.usage(cluster, vnode);
  }

  accelerator(cluster: KeptCluster, vnode: KeptVnode): "kvm" | "tcg" | undefined {
    return isMachine(cluster) ? this.#machines.accelerator(cluster.name, vnode) : undefined;
  }

  pods(cluster: KeptCluster, vnode: KeptVnode): readonly VnodePod[] {
    return this.#of(cluster).pods(cluster, vnode);
  }

  makeVolume(cluster: KeptCluster, vnode: KeptVnode, volume: string, bytes: number): Promise<void> {
    return this.#of(cluster).makeVolume(cluster, vnode, volume, bytes);
  }

  removeVolume(cluster: KeptCluster, vnode: KeptVnode, volume: string): Promise<void> {
    return this.#of(cluster).removeVolume(cluster, vnode, volume);
  }

  volumes(cluster: string, vnode: KeptVnode): readonly string[] {
    return this.#programs.volumes(cluster, vnode);
  }

  putVolumesAside(cluster: string, vnode: KeptVnode): string | undefined {
    return this.#programs.putVolumesAside(cluster, vnode);
  }

  volumeBytes(cluster: string, vnode?: KeptVnode): number {
    return this.#programs.volumeBytes(cluster, vnode);
  }

  lastWords(cluster: string, vnode: KeptVnode): readonly string[] {
    return [...this.#programs.lastWords(cluster, vnode), ...this.#machines.lastWords(cluster, vnode)];
  }

  onEnd(listener: Parameters<VnodeHost["onEnd"]>[0]): void {
    this.#programs.onEnd(listener);
    this.#machines.onEnd(listener);
  }

  #of(cluster: KeptCluster): LinuxVnodeHost | MachineVnodeHost {
    return isMachine(cluster) ? this.#machines : this.#programs;
  }
}

function isMachine({ spec }: Pick<KeptCluster, "spec">): boolean {
  return spec.isolationLevel === "L3";
}
