// Devices of a node in memory: it offers as many of each kind as it is told, and every worker may have so many.
import { AppError } from "@gpve/contracts/errors.ts";
import type { VnodeDeviceHost } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { KeptVnode } from "@gpve/domain/vcluster/vnode/vnode.ts";

export class FakeVnodeDevices implements VnodeDeviceHost {
  readonly has = new Map<string, number>();
  readonly offered: string[] = [];
  left: readonly string[] = [];
  broken: string | undefined;

  async require(_cluster: string, vnodes: readonly KeptVnode[]): Promise<void> {
    const sum = new Map<string, number>();
    for (const { devices = {} } of vnodes)
      for (const [kind, count] of Object.entries(devices)) sum.set(kind, (sum.get(kind) ?? 0) + count);
    for (const [kind, count] of sum)
      if (count > (this.has.get(kind) ?? 0))
        throw new AppError("capacity.exceeded", `${this.has.get(kind) ?? 0} ${kind} of ${count} are free`);
  }

  async offer(cluster: string, { name }: KeptVnode): Promise<void> {
    if (this.broken !== undefined) throw new AppError("internal.error", this.broken);
    this.offered.push(`${cluster}/${name}`);
  }

  retain(workers: readonly { readonly cluster: string; readonly vnode: string }[]): void {
    this.left = workers.map(({ cluster, vnode }) => `${cluster}/${vnode}`);
  }
}
