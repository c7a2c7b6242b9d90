// Looks at a node's storages again and again: what they are and what lies on them changes without asking anybody.
import type { StorageRuntime } from "@gpve/domain/node/runtime.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";

export interface StorageWatchDeps {
  readonly storages: { refresh(): Promise<void>; runtimes(): readonly StorageRuntime[] };
  readonly statistics: { sample(nowMs: number, storages: readonly StorageRuntime[]): void };
  readonly clock: Pick<Clock, "now" | "after">;
  readonly log: Logger;
}

const EVERY_MS = 10_000;

export class StorageWatch {
  readonly #deps: StorageWatchDeps;
  #stop: () => void = () => undefined;

  constructor(deps: StorageWatchDeps) {
    this.#deps = deps;
  }

  /** Resolves after the first look. */
  async start(): Promise<void> {
    await this.#look();
    this.#goOn();
  }

  close(): void {
    this.#stop();
  }

  #goOn(): void {
    this.#stop = this.#deps.clock.after(EVERY_MS, () => {
      background(this.#deps.log, "looking at storages", this.#look());
      this.#goOn();
    });
  }

  async #look(): Promise<void> {
    const { storages, statistics, clock } = this.#deps;
    await storages.refresh();
    statistics.sample(clock.now(), storages.runtimes());
  }
}
