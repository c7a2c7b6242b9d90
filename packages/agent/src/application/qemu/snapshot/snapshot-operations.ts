// Snapshots as operations. The lock in the configuration says what a crash cut off.
import type { VmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import { snapshotOf, without } from "@gpve/domain/guest/guest-config.ts";
import { hasLock, type GuestLock } from "@gpve/domain/guest/guest-lock.ts";
import { listDisks } from "@gpve/domain/vm/config/drive.ts";
import { createSnapshot, deleteSnapshot, rollbackSnapshot } from "@gpve/domain/vm/snapshot/snapshot-run.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import { freeVolume } from "../config/free-volumes.ts";
import { goOnAfterCrash, SnapshotWork, type SnapshotWorkPorts } from "./snapshot-work.ts";
import { runningVm } from "../running-vm.ts";
import type { BackupChains } from "@gpve/domain/backup/backup-chain.ts";

export interface SnapshotOperationsPorts extends SnapshotWorkPorts {
  readonly chains: BackupChains;
}

export interface SnapshotArgs {
  readonly vmid: number;
  readonly name: string;
}

export interface CreateSnapshotArgs extends SnapshotArgs {
  readonly description?: string;
  readonly withState: boolean;
}

interface SnapshotState {
  begun?: boolean;
  vmstate?: string;
  /** Absent = the guest was not touched yet; false = it was paused before. */
  resumes?: boolean;
}

type Context<Args> = StepContext<Args, SnapshotState>;

export function createSnapshotOperation(
  host: SnapshotOperationsPorts,
): OperationDefinition<CreateSnapshotArgs, SnapshotState> {
  return {
    type: "qmsnapshot",
    lock: "snapshot",
    steps: [
      {
        name: "snapshot",
        run: async (ctx) => {
          if (isComplete(host, ctx)) return;
          await createSnapshot(workOf(host, ctx), ctx.args);
        },
        undo: async (ctx) => {
          if (ctx.state.begun === true) await takeBack(host, ctx);
        },
      },
    ],
  };
}

/** Nothing of the snapshot is left and the guest goes on. */
async function takeBack(host: SnapshotOperationsPorts, ctx: Context<CreateSnapshotArgs>): Promise<void> {
  const { vmid, name } = ctx.args;
  await goOnAfterCrash(host, vmid, ctx.state.resumes ?? false, ctx.signal);
  const snapshot = snapshotOf(host.configs.get(vmid), name);
  if (snapshot !== undefined) {
    await host.configs.change(vmid, (config) => ({
      ...config,
      values: { ...config.values, lock: "snapshot" },
    }));
    const created = new Set(listDisks(snapshot).map(({ key }) => key));
    await deleteSnapshot(workOf(host, ctx), name, { force: true, created });
  }
  const { vmstate } = ctx.state;
  if (vmstate !== undefined) await freeVolume(host, vmstate, ctx.log);
}

function isComplete(host: SnapshotOperationsPorts, ctx: Context<SnapshotArgs>): boolean {
  const snapshot = snapshotOf(host.configs.get(ctx.args.vmid), ctx.args.name);
  return ctx.state.begun === true && snapshot !== undefined && snapshot["snapstate"] === undefined;
}

export function deleteSnapshotOperation(
  host: SnapshotOperationsPorts,
): OperationDefinition<SnapshotArgs & { readonly force: boolean }, SnapshotState> {
  return {
    type: "qmdelsnapshot",
    lock: "snapshot-delete",
    // Volumes that lost their snapshot do not get it back: go on where it was.
    onCrash: "resume",
    steps: [
      {
        name: "delete",
        run: async (ctx) => {
          const { vmid, name, force } = ctx.args;
          await releaseLock(host, ctx, "snapshot-delete");
          if (ctx.state.begun === true && snapshotOf(host.configs.get(vmid), name) === undefined) return;
          await deleteSnapshot(workOf(host, ctx), name, { force });
        },
        undo: (ctx) => releaseLock(host, ctx, "snapshot-delete"),
      },
    ],
  };
}

export function rollbackOperation(
  host: SnapshotOperationsPorts,
): OperationDefinition<SnapshotArgs & { readonly start: boolean }, SnapshotState> {
  return {
    type: "qmrollback",
    lock: "rollback",
    onCrash: "resume",
    steps: [
      {
        name: "rollback",
        run: async (ctx) => {
          await releaseLock(host, ctx, "rollback");
          // Before the disks change: whatever happens next, no backup builds on what was.
          await host.chains.drop(ctx.args.vmid, `the VM was rolled back to snapshot '${ctx.args.name}'`);
          await rollbackSnapshot(workOf(host, ctx), ctx.args.name);
        },
        undo: (ctx) => releaseLock(host, ctx, "rollback"),
      },
      {
        name: "start",
        run: async (ctx) => {
          const { vmid, start } = ctx.args;
          if (start && runningVm(host, vmid) === undefined) await host.starter.start({ vmid }, ctx);
        },
      },
    ],
  };
}

/** A lock that this very operation took before it was cut off, or failed. */
async function releaseLock(
  host: SnapshotOperationsPorts,
  ctx: Context<SnapshotArgs>,
  lock: GuestLock,
): Promise<void> {
  if (ctx.state.begun !== true) return;
  await host.configs.change(ctx.args.vmid, (config): VmConfig =>
    hasLock(config, lock) ? { ...config, values: without(config.values, "lock") } : config,
  );
}

function workOf(host: SnapshotOperationsPorts, ctx: Context<SnapshotArgs>): SnapshotWork {
  return new SnapshotWork(host, ctx.args.vmid, {
    signal: ctx.signal,
    log: ctx.log,
    warn: ctx.warn,
    begun: async ({ vmstate = ctx.state.vmstate, resumes = ctx.state.resumes }) => {
      const { state } = ctx;
      if (state.begun === true && state.vmstate === vmstate && state.resumes === resumes) return;
      state.begun = true;
      if (vmstate !== undefined) state.vmstate = vmstate;
      if (resumes !== undefined) state.resumes = resumes;
      await ctx.checkpoint();
    },
  });
}
