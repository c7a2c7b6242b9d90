// One backup as a step of its VM's chain: what it builds on, which bitmaps it moves, and what it leaves behind.
import { messageOf } from "@gpve/contracts/errors.ts";
import {
  bitmapOf,
  INCREMENTAL_TAG,
  isChain,
  planBackup,
  type BackupChain,
  type BackupPlan,
  type ChainDisk,
  type BackupChains,
} from "@gpve/domain/backup/backup-chain.ts";
import type { BackupArchives, ImageBitmaps, NodeFiles } from "@gpve/domain/backup/backup-ports.ts";
import { PARENT_SUFFIX } from "@gpve/domain/storage/backup-name.ts";
import type { StoragePlugin } from "@gpve/domain/storage/plugin.ts";
import type { TransactionAction } from "@gpve/domain/vm/qmp/qmp-types.ts";
import { openLink } from "./archive-chain.ts";
import type { BackupTarget } from "../../guest/backup/prune-old-backups.ts";
import { addBitmaps, disksNow, bitmapsOf, removeBitmaps, type SavedDisk } from "./track-changes.ts";
import type { Ids } from "@gpve/domain/guest/ids.ts";
import type { VmConfigs } from "../config/vm-configs.ts";
import type { QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";

export interface ChainStepPorts {
  readonly ids: Ids;
  readonly chains: BackupChains;
  readonly configs: VmConfigs;
  readonly processes: QemuProcesses;
}

export interface ChainStep {
  readonly plan: BackupPlan;
  /** Of the new archive. */
  readonly uuid: string;
  /** Puts the new bitmaps on the disks. What it gives is part of the transaction that fixes the backup's moment. */
  begin(): Promise<readonly TransactionAction[]>;
  /** The archive is there: from now on it is the one to build on. */
  commit(path: string): Promise<void>;
  /** There is no archive: bitmaps are as they were. */
  takeBack(): Promise<void>;
}

export interface StepRequest {
  readonly host: ChainStepPorts;
  readonly tools: ImageBitmaps & BackupArchives & NodeFiles;
  readonly args: { readonly incremental?: boolean };
  readonly target: BackupTarget;
  readonly vmid: number;
  readonly disks: readonly SavedDisk[];
  /** QEMU is ended before the disks are read: bitmaps that are only in its memory do not count. */
  readonly willStop: boolean;
}

/** Decides what the next backup is, and says why. */
export async function planStep(request: StepRequest, log: (line: string) => void): Promise<ChainStep> {
  const { host, target } = request;
  const uuid = host.ids.newUuid().replaceAll("-", "");
  const { plugin, storage } = target;
  // Outside of storages nobody looks after chains.
  if (plugin === undefined || storage === undefined) {
    const nothing = async (): Promise<void> => undefined;
    const plan: BackupPlan = { kind: "full", reason: "" };
    return { plan, uuid, begin: async () => [], commit: nothing, takeBack: nothing };
  }
  const plan = await choosePlan(request, plugin, storage);
  if (plan.kind === "incremental") log(`INFO: incremental backup on top of '${plan.parent.archive}'`);
  else if (plan.reason !== "") log(`INFO: full backup: ${plan.reason}`);
  return new StoredStep(request, storage, plan, uuid, log);
}

class StoredStep implements ChainStep {
  readonly plan: BackupPlan;
  readonly uuid: string;
  readonly #request: StepRequest;
  readonly #storage: string;
  readonly #log: (line: string) => void;
  #tracked: readonly SavedDisk[] = [];
  #chainDisks: Readonly<Record<string, ChainDisk>> = {};

  constructor(
    request: StepRequest,
    storage: string,
    plan: BackupPlan,
    uuid: string,
    log: (line: string) => void,
  ) {
    this.#request = request;
    this.#storage = storage;
    this.plan = plan;
    this.uuid = uuid;
    this.#log = log;
  }

  async begin(): Promise<readonly TransactionAction[]> {
    const { host, vmid, disks } = this.#request;
    const bitmaps = bitmapsOf(this.#request);
    const added = await addBitmaps(bitmaps, disks, this.uuid, host.chains.get(vmid));
    this.#tracked = added.tracked;
    this.#chainDisks = added.chainDisks;
    for (const [key, { untracked }] of Object.entries(added.chainDisks))
      if (untracked !== undefined)
        this.#log(`INFO: changes of disk '${key}' cannot be tracked: ${untracked}`);
    const held = this.#held();
    const name = bitmapOf(this.uuid);
    const { plan } = this;
    return [
      ...(plan.kind === "full" ? [] : bitmaps.switchActions(held, name, bitmapOf(plan.parent.uuid))),
      ...bitmaps.switchActions(
        this.#tracked.filter((disk) => !held.includes(disk)),
        name,
        undefined,
      ),
    ];
  }

  async commit(path: string): Promise<void> {
    const { host, tools, vmid, disks } = this.#request;
    const { plan } = this;
    const before = host.chains.get(vmid)[this.#storage];
    await host.chains.set(vmid, this.#storage, {
      uuid: this.uuid,
      archive: path.slice(path.lastIndexOf("/") + 1),
      length: plan.kind === "full" ? 1 : plan.parent.length + 1,
      disks: this.#chainDisks,
    });
    if (plan.kind === "incremental")
      await tools.writeSideFile(`${path}${PARENT_SUFFIX}`, `${plan.parent.archive}\n`);
    if (isChain(before)) await removeBitmaps(bitmapsOf(this.#request), disks, before.uuid);
  }

  async takeBack(): Promise<void> {
    const { host, vmid } = this.#request;
    const { plan, uuid } = this;
    const bitmaps = bitmapsOf(this.#request);
    try {
      if (plan.kind === "incremental")
        for (const disk of this.#held())
          await bitmaps.takeBack(disk, bitmapOf(uuid), bitmapOf(plan.parent.uuid));
    } catch (err) {
      this.#log(`INFO: what changed since the last backup is not known any more: ${messageOf(err)}`);
      await host.chains.drop(vmid, "the backup before this one failed, and its dirty bitmaps were lost");
    }
    await removeBitmaps(bitmaps, this.#tracked, uuid);
  }

  /** Disks whose old bitmap is read. A full backup reads none. */
  #held(): readonly SavedDisk[] {
    const { plan } = this;
    return plan.kind === "full" ? [] : this.#tracked.filter(({ key }) => !plan.whole.has(key));
  }
}

async function choosePlan(
  { host, tools, args, vmid, disks, willStop }: StepRequest,
  plugin: StoragePlugin,
  storage: string,
): Promise<BackupPlan> {
  const tags = (host.configs.get(vmid).values["tags"] ?? "").split(/[;,\s]+/);
  // Nobody wants to know why a full backup is full that was asked for.
  if (args.incremental !== true && !tags.includes(INCREMENTAL_TAG)) return { kind: "full", reason: "" };
  const now = await disksNow(bitmapsOf({ host, tools, vmid }), disks);
  const state = host.chains.get(vmid)[storage];
  const plan = planBackup(
    state,
    willStop ? now.map((disk) => (disk.format === "qcow2" ? disk : { ...disk, bitmaps: [] })) : now,
  );
  if (plan.kind === "full") return plan;
  const problem = await parentProblem(tools, plugin, plan.parent);
  return problem === undefined ? plan : { kind: "full", reason: problem };
}

/** A child is worth nothing without the very archive it builds on. */
async function parentProblem(
  tools: BackupArchives,
  plugin: StoragePlugin,
  parent: BackupChain,
): Promise<string | undefined> {
  try {
    const link = await openLink(tools, plugin, parent.archive);
    await link.close();
    return link.uuid === parent.uuid ? undefined : `'${parent.archive}' is not the backup that was made last`;
  } catch (err) {
    return `the last backup '${parent.archive}' cannot be built on: ${messageOf(err)}`;
  }
}
