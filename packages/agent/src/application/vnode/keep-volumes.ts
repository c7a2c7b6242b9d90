// Serves claims for persistent volumes with folders of the workers that their pods were placed on, and takes folders away
// that nobody claims any more.
import { messageOf } from "@gpve/contracts/errors.ts";
import { isOwnSlot, workerNodes } from "@gpve/domain/vcluster/overlay.ts";
import type { KeptCluster, RunningClusters } from "@gpve/domain/vcluster/ports.ts";
import {
  claimedOn,
  releasedFrom,
  type Volume,
  type VolumeClaim,
  volumeFor,
  volumeNameFor,
} from "@gpve/domain/vcluster/vnode/local-volumes.ts";
import { readBytes, slotOf } from "@gpve/domain/vcluster/vnode/vnode.ts";
import type { ClusterApi, VnodeHost } from "@gpve/domain/vcluster/vnode/ports.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { every } from "@gpve/kit/every.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { ForgottenVolumes, type VolumesSeen } from "./forgotten-volumes.ts";
import { expectStatus } from "./register-node.ts";
import { withinTurn } from "./within-turn.ts";

export interface KeepVolumesDeps {
  readonly host: RunningClusters;
  readonly vnodes: Pick<VnodeHost, "list" | "makeVolume" | "removeVolume" | "volumes" | "volumeBytes">;
  readonly api: ClusterApi;
  readonly clock: Clock;
  readonly log: Logger;
}

const LOOK_MS = 3_000;
const VOLUMES = "/api/v1/persistentvolumes";

export class KeepVolumes {
  readonly #deps: KeepVolumesDeps;
  readonly #stop = new AbortController();
  /** Of each cluster that has some, the smallest claim that waits for more than it may have. */
  readonly #waiting = new Map<string, number>();
  readonly #forgotten: ForgottenVolumes;

  constructor(deps: KeepVolumesDeps) {
    this.#deps = deps;
    this.#forgotten = new ForgottenVolumes(deps.clock);
  }

  begin(): void {
    background(this.#deps.log, "keeping volumes", this.#run());
  }

  close(): void {
    this.#stop.abort();
  }

  waitingBytes(cluster: string): number | undefined {
    return this.#waiting.get(cluster);
  }

  /** Every cluster that answers and has workers, once. */
  async look(): Promise<void> {
    const { host, vnodes, log } = this.#deps;
    for (const cluster of host.list()) {
      if (
        cluster.phase !== "Running" ||
        cluster.asleep !== undefined ||
        vnodes.list(cluster.name).length === 0 ||
        !host.isUp(cluster)
      ) {
        this.#waiting.delete(cluster.name);
        continue;
      }
      try {
        await withinTurn(this.#deps.clock, this.#stop.signal, async (signal) => {
          const claims = await this.#list<VolumeClaim>(cluster, "/api/v1/persistentvolumeclaims", signal);
          await this.#serve(cluster, claims ?? [], signal);
          const volumes = await this.#list<Volume>(cluster, VOLUMES, signal);
          await this.#clear(cluster, volumes ?? [], signal);
          // Of whom nothing is known nothing is forgotten.
          if (claims !== undefined && volumes !== undefined)
            await this.#clearForgotten(cluster, { claims, volumes });
        });
      } catch (err) {
        if (!this.#stop.signal.aborted)
          log.warn(
            { resource: `vcluster/${cluster.name}`, err: messageOf(err) },
            "volumes cannot be looked after",
          );
      }
    }
  }

  async #run(): Promise<void> {
    await every(LOOK_MS, { clock: this.#deps.clock, signal: this.#stop.signal }, () => this.look());
  }

  async #serve(cluster: KeptCluster, claims: readonly VolumeClaim[], signal: AbortSignal): Promise<void> {
    const { vnodes, api } = this.#deps;
    const waiting: number[] = [];
    for (const claim of claims) {
      const on = claimedOn(claim);
      const vnode = vnodes.list(cluster.name).find(({ name }) => name === on);
      const name = volumeNameFor(claim);
      if (vnode === undefined || name === undefined) continue;
      const bytes = readBytes(claim.spec.resources?.requests?.storage ?? "1Gi") ?? Infinity;
      // A node knows what it has itself: each of several gives its share.
      const bound = Math.floor((cluster.spec.volumeBytes ?? Infinity) / workerNodes(cluster.overlay));
      const isNew = !vnodes.volumes(cluster.name, vnode).includes(name);
      if (isNew && vnodes.volumeBytes(cluster.name) + bytes > bound) {
        // A size that cannot be read is more than anybody may have.
        if (Number.isFinite(bytes)) waiting.push(bytes);
        await this.#refuse(cluster, claim, signal);
        continue;
      }
      await vnodes.makeVolume(cluster, vnode, name, bytes);
      const body = volumeFor(claim, name, vnode.name);
      const request = { method: "POST", path: VOLUMES, body } as const;
      await expectStatus(api, cluster, request, [201, 409], signal);
    }
    if (waiting.length === 0) this.#waiting.delete(cluster.name);
    else this.#waiting.set(cluster.name, Math.min(...waiting));
  }

  /** Told once, where whoever waits for it looks. */
  async #refuse(cluster: KeptCluster, { metadata }: VolumeClaim, signal: AbortSignal): Promise<void> {
    const { api, clock } = this.#deps;
    const nodes = workerNodes(cluster.overlay);
    const share = nodes === 1 ? "" : `, on each of its ${nodes} nodes the same share of it`;
    const { namespace, name, uid } = metadata;
    const now = new Date(clock.now()).toISOString();
    const body = {
      apiVersion: "v1",
      kind: "Event",
      metadata: { namespace, name: `${name}.gpve-${uid}` },
      involvedObject: { apiVersion: "v1", kind: "PersistentVolumeClaim", namespace, name, uid },
      type: "Warning",
      reason: "QuotaExceeded",
      message: `the persistent volumes of this cluster may have ${cluster.spec.volumeBytes ?? 0} bytes together (spec.quota.storage)${share}: this one would be more`,
      source: { component: "gpve" },
      firstTimestamp: now,
      lastTimestamp: now,
      count: 1,
    };
    const path = `/api/v1/namespaces/${namespace}/events`;
    await expectStatus(api, cluster, { method: "POST", path, body }, [201, 409], signal);
  }

  async #clear(cluster: KeptCluster, volumes: readonly Volume[], signal: AbortSignal): Promise<void> {
    const { vnodes, api } = this.#deps;
    for (const volume of volumes) {
      const on = releasedFrom(volume);
      if (on === undefined) continue;
      const { name } = volume.metadata;
      const vnode = vnodes.list(cluster.name).find((each) => each.name === on);
      // The folder is on another node, which takes it away first.
      if (vnode === undefined && !isOwnSlot(cluster.overlay, slotOf(on) ?? 0)) continue;
      if (vnode !== undefined) await vnodes.removeVolume(cluster, vnode, name);
      const request = { method: "DELETE", path: `${VOLUMES}/${name}` } as const;
      await expectStatus(api, cluster, request, [200, 202, 404], signal);
    }
  }

  async #clearForgotten(cluster: KeptCluster, seen: Omit<VolumesSeen, "folders">): Promise<void> {
    const { vnodes, log } = this.#deps;
    const own = vnodes
      .list(cluster.name)
      .flatMap((vnode) => vnodes.volumes(cluster.name, vnode).map((folder) => ({ vnode, folder })));
    const folders = own.map(({ folder }) => folder);
    const gone = new Set(this.#forgotten.among(cluster.name, { folders, ...seen }));
    for (const { vnode, folder } of own.filter((each) => gone.has(each.folder))) {
      await vnodes.removeVolume(cluster, vnode, folder);
      log.warn(
        { resource: `vcluster/${cluster.name}` },
        `${folder} of ${vnode.name} of ${cluster.name} is gone: its PersistentVolume was deleted, and nobody claims it`,
      );
    }
  }

  /** undefined: it does not say. */
  async #list<T>(cluster: KeptCluster, path: string, signal: AbortSignal): Promise<readonly T[] | undefined> {
    const { status, body } = await this.#deps.api(cluster, { method: "GET", path }, signal);
    return status === 200 ? (body as { items?: readonly T[] } | undefined)?.items : undefined;
  }
}
