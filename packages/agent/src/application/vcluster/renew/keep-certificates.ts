// Looks now and then whether certificates of clusters that run would end soon, or an authority is to be dropped. Those that
// sleep or are stopped get new certificates when they are started.
import { randomUUID } from "node:crypto";
import { messageOf } from "@gpve/contracts/errors.ts";
import { isBranch, replicaSlot } from "@gpve/domain/vcluster/overlay.ts";
import { isRenewalDay } from "@gpve/domain/vcluster/replicas/replica-places.ts";
import type { RunningClusters } from "@gpve/domain/vcluster/ports.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { every } from "@gpve/kit/every.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { ClusterAuthorities } from "@gpve/domain/vcluster/rotate/authorities.ts";
import { DROP_CA } from "../rotate/rotate-operations.ts";
import { RENEW_CLUSTER } from "./renew-operation.ts";

export interface KeepCertificatesDeps {
  readonly host: RunningClusters;
  /** Whether one of its own, or of its workers here, would end soon. */
  readonly isDue: (name: string) => boolean;
  readonly authorities: Pick<ClusterAuthorities, "rotation">;
  readonly engine: Pick<OperationEngine, "submit" | "wait">;
  readonly clock: Clock;
  readonly log: Logger;
}

const EVERY_MS = 6 * 3_600_000;

export class KeepCertificates {
  readonly #deps: KeepCertificatesDeps;
  readonly #stop = new AbortController();

  constructor(deps: KeepCertificatesDeps) {
    this.#deps = deps;
  }

  async follow(): Promise<void> {
    const { signal } = this.#stop;
    await every(EVERY_MS, { clock: this.#deps.clock, signal }, () => this.look());
  }

  close(): void {
    this.#stop.abort();
  }

  /** One after the other: each takes its control plane away for a moment. */
  async look(): Promise<void> {
    const { host, log, isDue, authorities, clock } = this.#deps;
    for (const cluster of host.list()) {
      const { name, phase, asleep } = cluster;
      if (phase !== "Running" || asleep !== undefined || isBranch(cluster)) continue;
      if (!isRenewalDay(replicaSlot(cluster.overlay), clock.now())) continue;
      try {
        if (!host.isUp(cluster)) continue;
        if (isDue(name)) await this.#work(RENEW_CLUSTER, name);
        const { until = Infinity, isWhole = false } = authorities.rotation(name) ?? {};
        // On several nodes a server leads.
        if (isWhole && until <= clock.now() && cluster.overlay === undefined) await this.#work(DROP_CA, name);
      } catch (err) {
        log.warn(
          { resource: `vcluster/${name}`, err: messageOf(err) },
          "certificates of a virtual cluster could not be renewed; tried again later",
        );
      }
    }
  }

  async #work(type: typeof RENEW_CLUSTER | typeof DROP_CA, name: string): Promise<void> {
    const { engine, log } = this.#deps;
    const what =
      type === RENEW_CLUSTER
        ? "certificates of a virtual cluster are renewed"
        : "the time of a virtual cluster's old authority is over: it is dropped";
    log.info({ resource: `vcluster/${name}` }, what);
    const { operation } = await engine.submit({
      type,
      resources: [`vcluster/${name}`],
      args: { name },
      subject: name,
      actor: "root@pam",
      requestId: randomUUID(),
    });
    await engine.wait(operation.id);
  }
}
