// The process of a cluster's own etcd, where it is more than one part among others: it is ended and started again while the rest runs,
// when it is to have a standby or to go on without one.
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { SupervisedGuests } from "../guest-process/supervised-guests.ts";
import type { EtcdNote } from "./part-command.ts";
import type { EtcdProcess } from "./standby/etcd-leads.ts";

export class EtcdPart {
  readonly #processes: Pick<SupervisedGuests, "get" | "forget">;
  readonly #restarts = new Map<string, Promise<void>>();
  readonly #stopping = new Set<string>();

  constructor(processes: Pick<SupervisedGuests, "get" | "forget">) {
    this.#processes = processes;
  }

  /** undefined = it does not run. */
  of({ name, asleep }: Pick<KeptCluster, "name" | "asleep">): EtcdProcess | undefined {
    const running = this.#processes.get(idOf(name));
    if (running === undefined || running.hasExited) return undefined;
    const { alone } = (running.note ?? {}) as EtcdNote;
    return { uid: running.uid ?? 0, alone, isFrozen: asleep === "warm" };
  }

  /** It has ended, and is started again at once. */
  isRestarting(name: string): boolean {
    return this.#restarts.has(name);
  }

  /** One that is being stopped, or does not run, stays so. */
  async restart({ name }: Pick<KeptCluster, "name">, start: () => Promise<void>): Promise<void> {
    const running = this.#processes.get(idOf(name));
    if (running === undefined || this.#stopping.has(name)) return;
    const restart = async (): Promise<void> => {
      // It may stand still, or wait for somebody who is gone.
      if (!running.hasExited) await running.kill();
      await this.#processes.forget(idOf(name));
      await start();
    };
    const done = restart().finally(() => this.#restarts.delete(name));
    this.#restarts.set(name, done);
    await done;
  }

  /** Nobody starts it meanwhile. */
  async whileStopped(name: string, stop: () => Promise<void>): Promise<void> {
    this.#stopping.add(name);
    try {
      await this.#restarts.get(name)?.catch((err: unknown) => ignore(err, "told by whoever did it"));
      await stop();
    } finally {
      this.#stopping.delete(name);
    }
  }
}

function idOf(name: string): string {
  return `${name}.etcd`;
}
