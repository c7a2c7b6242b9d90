// Looks now and then whether certificates of clusters that run would end soon. Those that sleep or are stopped get new ones
// when they are started.
import { randomUUID } from "node:crypto";
import { messageOf } from "@gpve/contracts/errors.ts";
import { isBranch, replicaSlot } from "@gpve/domain/vcluster/overlay.ts";
import { isRenewalDay } from "@gpve/domain/vcluster/replicas/replica-places.ts";
import type { ClusterHost } from "@gpve/domain/vcluster/ports.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { RENEW_CLUSTER } from "./renew-operation.ts";

export interface KeepCertificatesDeps {
  readonly host: Pick<ClusterHost, "list" | "isUp">;
  /** Whether one of its own, or of its workers here, would end soon. */
  readonly isDue: (name: string) => boolean;
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
    while (!signal.aborted) {
      await this.look();
      await this.#deps.clock.sleep(EVERY_MS, signal).catch(() => undefined);
    }
  }

  close(): void {
    this.#stop.abort();
  }

  /** One after the other: each takes its control plane away for a moment. */
  async look(): Promise<void> {
    const { host, engine, log, isDue, clock } = this.#deps;
    for (const cluster of host.list()) {
      const { name, phase, asleep } = cluster;
      if (phase !== "Running" || asleep !== undefined || isBranch(cluster)) continue;
      if (!isRenewalDay(replicaSlot(cluster.overlay), clock.now())) continue;
      try {
        if (!host.isUp(cluster) || !isDue(name)) continue;
        log.info({ resource: `vcluster/${name}` }, "certificates of a virtual cluster are renewed");
        const { operation } = await engine.submit({
          type: RENEW_CLUSTER,
          resources: [`vcluster/${name}`],
          args: { name },
          subject: name,
          actor: "root@pam",
          requestId: randomUUID(),
        });
        await engine.wait(operation.id);
      } catch (err) {
        log.warn(
          { resource: `vcluster/${name}`, err: messageOf(err) },
          "certificates of a virtual cluster could not be renewed; tried again later",
        );
      }
    }
  }
}
