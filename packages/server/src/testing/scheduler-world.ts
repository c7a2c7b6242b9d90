// A cluster for tests of placements: nodes that report, storages, guests, and a clock that is told.
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { NodeRecord } from "@gpve/domain/node/record.ts";
import type { GuestRuntime, NodeFacts, NodeReport } from "@gpve/domain/node/runtime.ts";
import { storageCollection } from "@gpve/domain/storage/definition.ts";
import type { SchedulerConfiguration } from "@gpve/kit/config/configuration.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { MemoryNodeBoard } from "../application/node/board.ts";
import { nodeRecords } from "../application/node/collections.ts";
import { composeScheduler, type Scheduler } from "../compose-scheduler.ts";
import { MemoryRecords } from "./memory-records.ts";
import { joinedNode } from "./joined-node.ts";

const GiB = 1024 ** 3;

export class SchedulerWorld {
  readonly clock = new FakeClock();
  readonly records: Records;
  readonly board: MemoryNodeBoard;
  readonly scheduler: Scheduler;
  readonly #runs = new Map<string, number[]>();
  readonly #stopBoard: () => void;

  private constructor(records: Records, config: SchedulerConfiguration | undefined) {
    this.records = records;
    this.board = new MemoryNodeBoard({
      clock: this.clock,
      nodes: records.collection(nodeRecords),
      offlineAfterMs: 1e12,
    });
    this.#stopBoard = this.board.start();
    this.scheduler = composeScheduler({
      records,
      board: this.board,
      clock: this.clock,
      log: silentLogger,
      config,
      quotas: { requireRoomAt: () => undefined },
    });
  }

  /** Each node has 4 CPUs, 8 GiB, storages `local` and `shared`, and bridge vmbr0. */
  static async with(
    nodes: readonly string[],
    options: { readonly records?: Records; readonly config?: SchedulerConfiguration } = {},
  ): Promise<SchedulerWorld> {
    const world = new SchedulerWorld(options.records ?? new MemoryRecords(), options.config);
    await world.records.transact((tx) => {
      for (const storage of ["local", "shared"])
        tx.put(storageCollection, storage, {
          storage,
          type: "dir",
          options: { path: `/srv/${storage}`, content: "images,rootdir,iso", shared: storage === "shared" },
        });
    });
    for (const name of nodes) await world.node(name);
    return world;
  }

  async node(name: string, more: Partial<NodeRecord> = {}): Promise<void> {
    await this.records.transact((tx) => tx.put(nodeRecords, name, joinedNode(name, more)));
    this.report(name, this.#runs.get(name) ?? []);
  }

  /** A guest of 1 CPU and 1 GiB, or as `conf` says. */
  async guest(vmid: number, node: string, conf = "cores: 1\nmemory: 1024\n"): Promise<void> {
    await this.records.transact((tx) =>
      tx.put(guestCollection, String(vmid), guestRecord({ vmid, type: "qemu", node, conf })),
    );
  }

  async gone(vmid: number): Promise<void> {
    await this.records.transact((tx) => tx.delete(guestCollection, String(vmid)));
  }

  report(node: string, running: readonly number[]): void {
    this.#runs.set(node, [...running]);
    const guests = running.map((vmid) => ({ vmid, type: "qemu", status: "running" }) as GuestRuntime);
    const storages = ["local", "shared"].map((storage) => ({
      storage,
      active: true,
      totalBytes: 100 * GiB,
      usedBytes: 0,
      availBytes: 100 * GiB,
    }));
    const facts = {
      cpu: { cpus: 4 },
      memoryBytes: 8 * GiB,
      gpus: [],
      bridges: ["vmbr0"],
      kernel: { machine: "x86_64" },
      capabilities: [],
      accelerator: "tcg",
      qemu: { version: "9", binary: "q", machines: [], cpuFlags: { understood: [], tcg: ["aes"], kvm: [] } },
    } as unknown as NodeFacts;
    this.board.accept({
      node,
      at: this.clock.now(),
      agentVersion: "1",
      facts,
      reserve: { cpu: 0, memoryBytes: 0, overcommit: { cpu: 1, memory: 1 } },
      guests,
      storages,
    } as unknown as NodeReport);
  }

  stop(): void {
    this.scheduler.stop();
    this.#stopBoard();
  }
}
