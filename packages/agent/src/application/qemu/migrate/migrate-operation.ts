// Moving a VM to another node. Until the guest is handed over nothing is lost by giving up: it runs on here. The
// hand-over is one transaction at a server; from then on there is no way back, and what is left here goes.
import { AppError } from "@gpve/contracts/errors.ts";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import { isShared } from "@gpve/domain/storage/definition.ts";
import { usedVolumes } from "@gpve/domain/vm/migrate/movable.ts";
import { parseStorageMap } from "@gpve/domain/vm/migrate/storage-map.ts";
import type { QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";
import { conflict } from "@gpve/domain/request/failures.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import { beginUrgentWork } from "@gpve/kit/urgent-work.ts";
import type { MoveServers } from "@gpve/domain/guest/move-servers.ts";
import { findTicket } from "../../guest/find-ticket.ts";
import type { GuestStorages } from "../../guest/guest-storages.ts";
import { freeVolume, isOwned } from "../config/free-volumes.ts";
import type { VmConfigs } from "../config/vm-configs.ts";
import { runningVm } from "../running-vm.ts";
import { forgetKey } from "./encrypted-ram.ts";
import { unheeded, type MoveWishes } from "./move-wishes.ts";
import { keepHere, sendVm, type SendVmPorts, type SentVm } from "./send-vm.ts";
import { untilAnswered } from "./whose-guest.ts";

export interface MigratePorts extends SendVmPorts {
  readonly configs: VmConfigs;
  readonly processes: QemuProcesses;
  readonly storages: GuestStorages;
  readonly moves: SendVmPorts["moves"] & {
    readonly servers: MoveServers;
    readonly requireOthers?: (target: string) => void;
    /** undefined = no server has allowed it, or it is over. */
    find(vmid: number, moveId: string): GuestMove | undefined;
  };
}

export interface MigrateArgs {
  readonly vmid: number;
  readonly moveId: string;
  readonly target: string;
  readonly online: boolean;
  readonly withLocalDisks: boolean;
  readonly targetstorage?: string;
  /** KiB/s */
  readonly bwlimit?: number;
  readonly wishes?: MoveWishes;
}

interface MigrateState {
  /** Something may have been begun: an end is to be made of it. */
  begun?: boolean;
  /** The guest stood still before. */
  isPaused?: boolean;
  /** Volumes that the other node has, or gets, copies of: they go when the guest is its own. */
  freed?: readonly string[];
  /** The other node has it. */
  handedOver?: boolean;
}

type Context = StepContext<MigrateArgs, MigrateState>;

export function migrateVmOperation(host: MigratePorts): OperationDefinition<MigrateArgs, MigrateState> {
  return {
    type: "qmigrate",
    lock: "migrate",
    // What a server has decided is found out; what it has not is called off.
    onCrash: "resume",
    exclusive: true,
    steps: [
      { name: "move", weight: 8, run: (ctx) => move(host, ctx), undo: (ctx) => callOff(host, ctx) },
      { name: "clear up", run: (ctx) => clearUp(host, ctx) },
    ],
  };
}

async function move(host: MigratePorts, ctx: Context): Promise<void> {
  const { args, state, log } = ctx;
  if (state.begun === true) return settle(host, ctx);
  const { vmid, target } = args;
  host.configs.get(vmid);
  const ticket = await findTicket(host, ctx.args, { signal: ctx.signal, refusal: noTicket(ctx.args) });
  const process = runningVm(host, vmid);
  if (process !== undefined && !args.online) throw conflict("can't migrate running VM without --online");
  log(`moving VM ${vmid} to node '${target}' (${ticket.to.address})`);
  for (const line of unheeded(args.wishes, host.configs.datacenterOption("migration"))) log(line);
  if (process !== undefined) {
    const { status } = await process.qmp.execute("query-status", undefined, { signal: ctx.signal });
    state.isPaused = status !== "running";
  }
  state.begun = true;
  if (process === undefined && !hasLocalVolumes(host, vmid)) {
    await ctx.checkpoint();
    return handOver(host, ctx);
  }
  const { signal, progress } = ctx;
  const storageMap = args.targetstorage === undefined ? undefined : parseStorageMap(args.targetstorage);
  const { bwlimit, withLocalDisks } = args;
  const willFree = async (volids: readonly string[]): Promise<void> => {
    if (volids.length === 0) return;
    state.freed = volids;
    await ctx.checkpoint();
  };
  const begun = (): Promise<void> => ctx.checkpoint();
  const work = { signal, log, progress, bwlimit, withLocalDisks, storageMap, begun, willFree };
  const sent = await sendVm(host, ticket, process, work);
  try {
    const isOver = beginUrgentWork();
    await handOver(host, ctx, sent).finally(isOver);
    // Before anything is taken away from it: of one that has gone, nothing need be.
    await runningVm(host, vmid)?.kill();
  } finally {
    await sent.close();
  }
}

function hasLocalVolumes(host: MigratePorts, vmid: number): boolean {
  return usedVolumes(host.configs.get(vmid)).some(
    ({ storage }) => !isShared(host.storages.definition(storage)),
  );
}

/** Not to be interrupted: until a server has answered, nobody knows whose it is. */
async function handOver(host: MigratePorts, ctx: Context, sent?: SentVm): Promise<void> {
  const { args, state } = ctx;
  await requireOwner(host, ctx, () => host.moves.servers.handOver(args, sent?.conf));
  state.handedOver = true;
  const still =
    sent?.stoppedAt === undefined ? "" : `, ${host.clock.now() - sent.stoppedAt} ms after it last ran here`;
  ctx.log(`node '${args.target}' has VM ${args.vmid} now${still}`);
}

/** Cut off before: what became of it. */
async function settle(host: MigratePorts, ctx: Context): Promise<void> {
  if (ctx.state.handedOver === true) return;
  await requireOwner(host, ctx, () => host.moves.servers.withdraw(ctx.args));
  ctx.state.handedOver = true;
}

/** Throws unless the target has it. */
async function requireOwner(host: MigratePorts, ctx: Context, ask: () => Promise<string>): Promise<void> {
  const { vmid, target } = ctx.args;
  const askAgain = (): Promise<string> => host.moves.servers.withdraw(ctx.args);
  const owner = await untilAnswered({ ask, askAgain, clock: host.clock, log: ctx.log });
  if (owner === target) return;
  throw new AppError("operation.failed", `the move of VM ${vmid} to node '${target}' was called off`, {
    pveStatus: 500,
  });
}

async function callOff(host: MigratePorts, ctx: Context): Promise<void> {
  const { args, state, log } = ctx;
  if (state.handedOver === true) return;
  const ask = (): Promise<string> => host.moves.servers.withdraw(args);
  if ((await untilAnswered({ ask, clock: host.clock, log })) !== host.configs.node) return clearUp(host, ctx);
  const process = runningVm(host, args.vmid);
  if (process === undefined || state.begun !== true) return;
  await keepHere(host, process, state.isPaused === true);
  await forgetKey(host.moves.keys, process);
}

/** The guest is the other node's: nothing of it stays here. */
async function clearUp(host: MigratePorts, { args, state, log }: Context): Promise<void> {
  await runningVm(host, args.vmid)?.kill();
  await host.moves.keys?.remove(String(args.vmid));
  for (const volid of state.freed ?? [])
    if (isOwned(host, args.vmid, volid)) await freeVolume(host, volid, log);
}

function noTicket({ vmid, target }: MigrateArgs): string {
  return `no server has allowed the move of VM ${vmid} to node '${target}': it was called off, or this node is in no cluster`;
}
