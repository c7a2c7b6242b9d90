// One run of a replication job as a step from one state of the disks to the next: which bitmaps say what changed, and
// which ones say it from now on. The same bitmaps and rules as incremental backups have, with the other node in the
// place of the storage.
import { messageOf } from "@gpve/contracts/errors.ts";
import {
  bitmapOf,
  isAlwaysWhole,
  isChain,
  planBackup,
  type BackupChains,
  type ChainDisk,
} from "@gpve/domain/backup/backup-chain.ts";
import type { ImageBitmaps } from "@gpve/domain/backup/backup-ports.ts";
import type { Ids } from "@gpve/domain/guest/ids.ts";
import type { QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";
import type { TransactionAction } from "@gpve/domain/vm/qmp/qmp-types.ts";
import { addBitmaps, disksNow, bitmapsOf, removeBitmaps } from "../chain/track-changes.ts";
import type { ReplicatedDisk } from "./replicated-disks.ts";

export interface ReplicaStepPorts {
  readonly ids: Ids;
  readonly chains: BackupChains;
  readonly processes: QemuProcesses;
}

export interface StepAsked {
  readonly host: ReplicaStepPorts;
  readonly tools: ImageBitmaps;
  readonly vmid: number;
  readonly target: string;
  readonly disks: readonly ReplicatedDisk[];
  /** The state that the other node has. */
  readonly there: string | undefined;
  readonly log: (line: string) => void;
}

/** Of all disks that are sent whole: there is nothing to build on. */
export interface ReplicaPlan {
  readonly generation: string;
  readonly base: string | undefined;
  readonly whole: ReadonlySet<string>;
}

/** No storage is called so. */
export function chainKey(target: string): string {
  return `@${target}`;
}

export class ReplicaStep {
  readonly plan: ReplicaPlan;
  readonly #asked: StepAsked;
  #tracked: readonly ReplicatedDisk[] = [];
  #chainDisks: Readonly<Record<string, ChainDisk>> = {};

  private constructor(asked: StepAsked, plan: ReplicaPlan) {
    this.#asked = asked;
    this.plan = plan;
  }

  static async plan(asked: StepAsked): Promise<ReplicaStep> {
    const { host, disks, vmid, target, there, log } = asked;
    const generation = host.ids.newUuid().replaceAll("-", "");
    const chained = disks.filter(isChained);
    const known = host.chains.get(vmid)[chainKey(target)];
    const plan = planBackup(known, await disksNow(bitmapsOf(asked), chained));
    const everything = new Set(disks.map(({ key }) => key));
    const reason =
      plan.kind === "full"
        ? known === undefined
          ? "this is the first copy"
          : plan.reason
        : plan.parent.uuid === there
          ? undefined
          : "the other node does not have the copy that was sent last";
    if (reason !== undefined || plan.kind === "full") {
      log(`all of every disk is sent: ${reason}`);
      return new ReplicaStep(asked, { generation, base: undefined, whole: everything });
    }
    const unchained = disks.filter((disk) => !isChained(disk)).map(({ key }) => key);
    const whole = new Set([...plan.whole, ...unchained]);
    return new ReplicaStep(asked, { generation, base: plan.parent.uuid, whole });
  }

  /** What it gives is part of the transaction that fixes the moment. */
  async begin(): Promise<readonly TransactionAction[]> {
    const { host, vmid, disks, log } = this.#asked;
    const { generation, base } = this.plan;
    const bitmaps = bitmapsOf(this.#asked);
    const added = await addBitmaps(bitmaps, disks.filter(isChained), generation, host.chains.get(vmid));
    this.#tracked = added.tracked as readonly ReplicatedDisk[];
    this.#chainDisks = added.chainDisks;
    for (const [key, { untracked }] of Object.entries(added.chainDisks))
      if (untracked !== undefined) log(`changes of ${key} cannot be tracked: ${untracked}`);
    const held = this.#held();
    return [
      ...(base === undefined ? [] : bitmaps.switchActions(held, bitmapOf(generation), bitmapOf(base))),
      ...bitmaps.switchActions(
        this.#tracked.filter((disk) => !held.includes(disk)),
        bitmapOf(generation),
        undefined,
      ),
    ];
  }

  /** The name of the bitmap to read of a disk; undefined = all of it is read. */
  bitmapFor(key: string): string | undefined {
    const { base, whole } = this.plan;
    return base === undefined || whole.has(key) ? undefined : bitmapOf(base);
  }

  /** The other node has it: from now on this is what the next one builds on. */
  async commit(): Promise<void> {
    const { host, vmid, target, disks } = this.#asked;
    const { generation } = this.plan;
    const before = host.chains.get(vmid)[chainKey(target)];
    const chain = { uuid: generation, archive: generation, length: 1, disks: this.#chainDisks };
    await host.chains.set(vmid, chainKey(target), chain);
    if (isChain(before)) await removeBitmaps(bitmapsOf(this.#asked), disks.filter(isChained), before.uuid);
  }

  async takeBack(): Promise<void> {
    const { log } = this.#asked;
    const { generation, base } = this.plan;
    const bitmaps = bitmapsOf(this.#asked);
    try {
      if (base !== undefined)
        for (const disk of this.#held()) await bitmaps.takeBack(disk, bitmapOf(generation), bitmapOf(base));
    } catch (err) {
      // The old bitmap has stopped: the next run sees that, and sends all.
      log(`what changed since the last run is not known any more: ${messageOf(err)}`);
    }
    await removeBitmaps(bitmaps, this.#tracked, generation);
  }

  #held(): readonly ReplicatedDisk[] {
    return this.#tracked.filter(({ key }) => !this.plan.whole.has(key));
  }
}

/** Tiny ones are sent whole every time. */
function isChained({ key, isInQemu }: ReplicatedDisk): boolean {
  return isInQemu && !isAlwaysWhole(key);
}
