// Keeps the kubelets of workers told of their devices: when a worker begins, when its kubelet or this agent was started again, and
// when a device comes or goes.
import { messageOf } from "@gpve/contracts/errors.ts";
import { hasDevices } from "@gpve/domain/vcluster/devices/worker-devices.ts";
import type { KeptClusters } from "@gpve/domain/vcluster/ports.ts";
import type { VnodeDeviceHost, VnodeHost } from "@gpve/domain/vcluster/vnode/ports.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { every } from "@gpve/kit/every.ts";
import type { Logger } from "@gpve/kit/logger.ts";

export interface KeepDevicesDeps {
  readonly host: Pick<KeptClusters, "list">;
  readonly vnodes: Pick<VnodeHost, "list">;
  readonly devices: VnodeDeviceHost;
  readonly clock: Clock;
  readonly log: Logger;
}

const LOOK_MS = 3_000;

export class KeepDevices {
  readonly #deps: KeepDevicesDeps;
  readonly #stop = new AbortController();
  /** What was said of a worker last: nothing is said twice. */
  readonly #said = new Map<string, string>();

  constructor(deps: KeepDevicesDeps) {
    this.#deps = deps;
  }

  begin(): void {
    const { clock, log } = this.#deps;
    const run = every(LOOK_MS, { clock, signal: this.#stop.signal }, () => this.look());
    background(log, "devices of workers", run);
  }

  close(): void {
    this.#stop.abort();
    this.#deps.devices.retain([]);
  }

  /** Looks at every worker that has devices once. */
  async look(): Promise<void> {
    const { host, vnodes, devices, log } = this.#deps;
    const workers = host
      .list()
      .filter(({ spec }) => hasDevices(spec))
      .flatMap(({ name }) => vnodes.list(name).map((vnode) => ({ cluster: name, vnode })))
      .filter(({ vnode }) => vnode.isWanted && vnode.devices !== undefined);
    devices.retain(workers.map(({ cluster, vnode }) => ({ cluster, vnode: vnode.name })));
    for (const { cluster, vnode } of workers) {
      if (this.#stop.signal.aborted) break;
      const id = `${cluster}/${vnode.name}`;
      try {
        await devices.offer(cluster, vnode);
        this.#said.delete(id);
      } catch (err) {
        const why = messageOf(err);
        if (this.#said.get(id) === why) continue;
        this.#said.set(id, why);
        log.warn(
          { resource: `vcluster/${cluster}` },
          `devices of ${vnode.name} of ${cluster} are not offered: ${why}`,
        );
      }
    }
    // What has come meanwhile would be told by nobody.
    if (this.#stop.signal.aborted) devices.retain([]);
  }
}
