// Devices of this node that its workers have. Which are whose is written down with each worker, and ends with its folder:
//
//   FOLDER/clusters/<cluster>/vnodes/<name>/devices.json   those that it has
//   …/etc/cdi/                                            what its containerd knows of them, and of no others
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { narrowedCdiSpec } from "@gpve/domain/vcluster/devices/cdi-spec.ts";
import { offeredOf, type OwnedDevice, takeDevices } from "@gpve/domain/vcluster/devices/owned-devices.ts";
import type { VnodeDeviceHost } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { KeptVnode } from "@gpve/domain/vcluster/vnode/vnode.ts";
import { readJsonFile, readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { keptVnodes, vnodesFolder } from "../kept-vnodes.ts";
import { DevicePlugin } from "./device-plugin.ts";
import type { ReadCdi } from "./read-cdi.ts";

export interface VnodeDevicesDeps {
  /** DIR/vclusters */
  readonly folder: string;
  readonly read: () => Promise<ReadCdi>;
}

export class VnodeDevices implements VnodeDeviceHost {
  readonly #deps: VnodeDevicesDeps;
  /** By worker, then by kind. */
  readonly #plugins = new Map<string, Map<string, DevicePlugin>>();

  constructor(deps: VnodeDevicesDeps) {
    this.#deps = deps;
  }

  async require(cluster: string, vnodes: readonly KeptVnode[]): Promise<void> {
    if (vnodes.every(({ devices }) => devices === undefined)) return;
    const { specs: offered, unread } = await this.#deps.read();
    const taken: OwnedDevice[] = [];
    for (const { name, devices } of vnodes) {
      if (devices === undefined) continue;
      const others = [...this.#others(cluster, name), ...taken];
      taken.push(...takeDevices(name, devices, this.#own(cluster, name), { offered, others, unread }));
    }
  }

  /** Gives it those that it shall have, and answers with the folder of what its containerd reads; undefined: it has none. */
  async settle(cluster: string, vnode: KeptVnode): Promise<string | undefined> {
    if (vnode.devices === undefined) {
      // A backup that was restored over it may have none.
      rmSync(this.#record(cluster, vnode.name), { force: true });
      return undefined;
    }
    await this.#settle(cluster, { ...vnode, devices: vnode.devices });
    return this.#cdiFolder(cluster, vnode.name);
  }

  async offer(cluster: string, vnode: KeptVnode): Promise<void> {
    if (vnode.devices === undefined) return;
    const devices = await this.#settle(cluster, { ...vnode, devices: vnode.devices });
    const folder = join(this.#place(cluster, vnode.name), "kubelet", "device-plugins");
    const id = `${cluster}/${vnode.name}`;
    const plugins = this.#plugins.get(id) ?? new Map<string, DevicePlugin>();
    this.#plugins.set(id, plugins);
    for (const kind of Object.keys(vnode.devices)) {
      const known = plugins.get(kind);
      const own = devices.filter((device) => device.kind === kind);
      if (known?.isKnown() === true) known.tell(own);
      else {
        known?.close();
        plugins.delete(kind);
        // Nothing where no kubelet is there yet.
        const begun = await DevicePlugin.begin({ folder, kind, devices: own });
        if (begun !== undefined) plugins.set(kind, begun);
      }
    }
  }

  retain(workers: readonly { readonly cluster: string; readonly vnode: string }[]): void {
    const left = new Set(workers.map(({ cluster, vnode }) => `${cluster}/${vnode}`));
    for (const [id, plugins] of this.#plugins)
      if (!left.has(id)) {
        for (const plugin of plugins.values()) plugin.close();
        this.#plugins.delete(id);
      }
  }

  /** Each with whether it can be used now. */
  async #settle(
    cluster: string,
    { name, devices }: Pick<KeptVnode, "name"> & { readonly devices: NonNullable<KeptVnode["devices"]> },
  ): Promise<readonly (OwnedDevice & { readonly isHealthy: boolean })[]> {
    const { specs, unread } = await this.#deps.read();
    // From here on without a pause: two workers cannot take the same one.
    if (!existsSync(this.#place(cluster, name))) return [];
    const has = this.#own(cluster, name);
    const isWhole = Object.entries(devices).every(
      ([kind, count]) => has.filter((device) => device.kind === kind).length >= count,
    );
    // All workers of the node are read for that, and this is asked every few seconds.
    const others = isWhole ? [] : this.#others(cluster, name);
    const mine = takeDevices(name, devices, has, { offered: specs, others, unread });
    writeIfOther(this.#record(cluster, name), `${JSON.stringify(mine)}\n`);
    const usable = (device: OwnedDevice): boolean =>
      offeredOf(device.kind, specs).some((each) => each.name === device.name) &&
      device.nodes.every(existsSync);
    const folder = this.#cdiFolder(cluster, name);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const written = new Set<string>();
    for (const kind of Object.keys(devices)) {
      const left = new Set(
        mine.filter((device) => device.kind === kind && usable(device)).map((each) => each.name),
      );
      for (const [at, spec] of specs.entries()) {
        // What several files describe is of the first.
        const here = spec.kind === kind ? spec.devices.filter((device) => left.has(device.name)) : [];
        if (here.length === 0) continue;
        const names = here.map((device) => device.name);
        for (const each of names) left.delete(each);
        writeIfOther(join(folder, `${at}.json`), `${JSON.stringify(narrowedCdiSpec(spec, names))}\n`);
        written.add(`${at}.json`);
      }
    }
    for (const old of readdirSync(folder)) if (!written.has(old)) rmSync(join(folder, old), { force: true });
    return mine.map((device) => ({ ...device, isHealthy: usable(device) }));
  }

  #own(cluster: string, worker: string): readonly OwnedDevice[] {
    return (readJsonFile(this.#record(cluster, worker)) as readonly OwnedDevice[] | undefined) ?? [];
  }

  /** Of all other workers of this node, also of those that are stopped. */
  #others(cluster: string, worker: string): readonly OwnedDevice[] {
    const clusters = join(this.#deps.folder, "clusters");
    if (!existsSync(clusters)) return [];
    return readdirSync(clusters).flatMap((other) =>
      keptVnodes(this.#deps.folder, other)
        .filter(({ name }) => other !== cluster || name !== worker)
        .flatMap(({ name }) => this.#own(other, name)),
    );
  }

  #record(cluster: string, worker: string): string {
    return join(this.#place(cluster, worker), "devices.json");
  }

  #cdiFolder(cluster: string, worker: string): string {
    return join(this.#place(cluster, worker), "etc", "cdi");
  }

  #place(cluster: string, worker: string): string {
    return join(vnodesFolder(this.#deps.folder, cluster), worker);
  }
}

function writeIfOther(path: string, text: string): void {
  if (readTextFile(path) !== text) writeFileAtomic(path, text);
}
