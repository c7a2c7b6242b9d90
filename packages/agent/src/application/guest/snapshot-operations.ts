// Snapshots of any guest as operations. The lock in the configuration says what a crash cut off.
import { snapshotOf, without, type GuestConfig } from "@gpve/domain/guest/guest-config.ts";
import { hasLock, type GuestLock } from "@gpve/domain/guest/guest-lock.ts";
import {
  createSnapshot,
  deleteSnapshot,
  rollbackSnapshot,
  type SnapshotHost,
} from "@gpve/domain/guest/snapshot/snapshot-run.ts";
import type { OperationRegistrar } from "./operation-registrar.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";

export function registerSnapshots<Start>(engine: OperationRegistrar, guests: GuestSnapshots<Start>): void {
  engine.register(createSnapshotOperation(guests));
  engine.register(deleteSnapshotOperation(guests));
  engine.register(rollbackOperation(guests));
}

/** What a kind of guest does where its snapshots are made, deleted and gone back to. */
export interface GuestSnapshots<Start = unknown> {
  /** Types of its tasks. */
  readonly operations: { readonly create: string; readonly delete: string; readonly rollback: string };
  readonly configs: {
    get(vmid: number): GuestConfig;
    change(vmid: number, change: (config: GuestConfig) => GuestConfig): Promise<GuestConfig>;
  };
  /** Volumes and guest, for one task. */
  work(vmid: number, task: SnapshotTask): SnapshotHost<Start>;
  /** A guest that a crash of ours left standing still goes on as it was: paused, unless it `resumes`. */
  goOn(vmid: number, resumes: boolean, signal: AbortSignal): Promise<void>;
  /** Before the volumes go back: what must not outlast that. */
  beforeRollback(vmid: number, name: string): Promise<void>;
  isRunning(vmid: number): boolean;
  start(vmid: number, task: SnapshotTask): Promise<void>;
}

export interface SnapshotTask {
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
  readonly warn: (line: string) => void;
  /** Called before the first change of anything. */
  readonly begun: (what: { readonly vmstate?: string; readonly resumes?: boolean }) => Promise<void>;
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

function createSnapshotOperation<Start>(
  guests: GuestSnapshots<Start>,
): OperationDefinition<CreateSnapshotArgs, SnapshotState> {
  return {
    type: guests.operations.create,
    lock: "snapshot",
    steps: [
      {
        name: "snapshot",
        run: async (ctx) => {
          if (isComplete(guests, ctx)) return;
          await createSnapshot(workOf(guests, ctx), ctx.args);
        },
        undo: async (ctx) => {
          if (ctx.state.begun === true) await takeBack(guests, ctx);
        },
      },
    ],
  };
}

/** Nothing of the snapshot is left and the guest goes on. */
async function takeBack<Start>(
  guests: GuestSnapshots<Start>,
  ctx: Context<CreateSnapshotArgs>,
): Promise<void> {
  const { vmid, name } = ctx.args;
  const work = workOf(guests, ctx);
  await guests.goOn(vmid, ctx.state.resumes ?? false, ctx.signal);
  const snapshot = snapshotOf(guests.configs.get(vmid), name);
  if (snapshot !== undefined) {
    await guests.configs.change(vmid, (config) => ({
      ...config,
      values: { ...config.values, lock: "snapshot" },
    }));
    const created = new Set(work.rules.volumes(snapshot).map(({ key }) => key));
    await deleteSnapshot(work, name, { force: true, created });
  }
  const { vmstate } = ctx.state;
  if (vmstate !== undefined) await work.freeVolume(vmstate);
}

function isComplete({ configs }: GuestSnapshots, ctx: Context<SnapshotArgs>): boolean {
  const snapshot = snapshotOf(configs.get(ctx.args.vmid), ctx.args.name);
  return ctx.state.begun === true && snapshot !== undefined && snapshot["snapstate"] === undefined;
}

function deleteSnapshotOperation<Start>(
  guests: GuestSnapshots<Start>,
): OperationDefinition<SnapshotArgs & { readonly force: boolean }, SnapshotState> {
  return {
    type: guests.operations.delete,
    lock: "snapshot-delete",
    // Volumes that lost their snapshot do not get it back: go on where it was.
    onCrash: "resume",
    steps: [
      {
        name: "delete",
        run: async (ctx) => {
          const { vmid, name, force } = ctx.args;
          await releaseLock(guests, ctx, "snapshot-delete");
          if (ctx.state.begun === true && snapshotOf(guests.configs.get(vmid), name) === undefined) return;
          await deleteSnapshot(workOf(guests, ctx), name, { force });
        },
        undo: (ctx) => releaseLock(guests, ctx, "snapshot-delete"),
      },
    ],
  };
}

function rollbackOperation<Start>(
  guests: GuestSnapshots<Start>,
): OperationDefinition<SnapshotArgs & { readonly start: boolean }, SnapshotState> {
  return {
    type: guests.operations.rollback,
    lock: "rollback",
    onCrash: "resume",
    steps: [
      {
        name: "rollback",
        run: async (ctx) => {
          const { vmid, name } = ctx.args;
          await releaseLock(guests, ctx, "rollback");
          await guests.beforeRollback(vmid, name);
          await rollbackSnapshot(workOf(guests, ctx), name);
        },
        undo: (ctx) => releaseLock(guests, ctx, "rollback"),
      },
      {
        name: "start",
        run: async (ctx) => {
          const { vmid, start } = ctx.args;
          if (start && !guests.isRunning(vmid)) await guests.start(vmid, taskOf(ctx));
        },
      },
    ],
  };
}

/** A lock that this very operation took before it was cut off, or failed. */
async function releaseLock(
  { configs }: GuestSnapshots,
  ctx: Context<SnapshotArgs>,
  lock: GuestLock,
): Promise<void> {
  if (ctx.state.begun !== true) return;
  await configs.change(ctx.args.vmid, (config) =>
    hasLock(config, lock) ? { ...config, values: without(config.values, "lock") } : config,
  );
}

function workOf<Start>(guests: GuestSnapshots<Start>, ctx: Context<SnapshotArgs>): SnapshotHost<Start> {
  return guests.work(ctx.args.vmid, taskOf(ctx));
}

function taskOf(ctx: Context<SnapshotArgs>): SnapshotTask {
  const { state } = ctx;
  return {
    signal: ctx.signal,
    log: ctx.log,
    warn: ctx.warn,
    begun: async ({ vmstate = state.vmstate, resumes = state.resumes }) => {
      if (state.begun === true && state.vmstate === vmstate && state.resumes === resumes) return;
      state.begun = true;
      if (vmstate !== undefined) state.vmstate = vmstate;
      if (resumes !== undefined) state.resumes = resumes;
      await ctx.checkpoint();
    },
  };
}
