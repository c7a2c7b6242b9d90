// One run of a replication job, as the VM's node does it. Nothing here is worth keeping when it fails: the copy is as it
// was, and the next run sends what this one did not.
import { given } from "@gpve/contracts/given.ts";
import type { ImageBitmaps, NodeFiles, OpenDisks } from "@gpve/domain/backup/backup-ports.ts";
import { checkLock } from "@gpve/domain/guest/guest-lock.ts";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type { ReplicaOffer, ReplicaPeers } from "@gpve/domain/replication/replica.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import { findTicket } from "../../guest/find-ticket.ts";
import type { VmConfigs } from "../config/vm-configs.ts";
import { endFleece } from "../backup/fleece.ts";
import { isPaused, type HeldVm, type HeldVmPorts } from "../backup/held-guest.ts";
import { thawFilesystems } from "../agent/use-guest-agent.ts";
import { runningVm } from "../running-vm.ts";
import { ReplicaStep, type ReplicaStepPorts } from "./replica-step.ts";
import { replicatedDisks } from "./replicated-disks.ts";
import { mib, scratchFiles, sendDisks } from "./send-disks.ts";

export interface ReplicatePorts extends HeldVmPorts, ReplicaStepPorts {
  readonly clock: Clock;
  readonly configs: VmConfigs;
  readonly moves: {
    /** undefined = no server has allowed it, or it is over. */
    find(vmid: number, moveId: string): GuestMove | undefined;
    readonly peers: ReplicaPeers;
  };
}

export interface ReplicateArgs {
  readonly vmid: number;
  readonly job: string;
  readonly target: string;
  readonly moveId: string;
  /** MB/s */
  readonly rate?: number;
  readonly replaces?: readonly string[];
}

interface ReplicateState {
  held?: HeldVm;
}

type Context = StepContext<ReplicateArgs, ReplicateState>;

export const REPLICATE = "replicate";
const BYTES_PER_MB = 1000 ** 2;

export function replicateOperation(
  host: ReplicatePorts,
  tools: OpenDisks & NodeFiles & ImageBitmaps,
): OperationDefinition<ReplicateArgs, ReplicateState> {
  return {
    type: REPLICATE,
    steps: [
      {
        name: "replicate",
        run: (ctx) => replicate(host, tools, ctx),
        undo: (ctx) => release(host, tools, ctx),
      },
    ],
  };
}

async function replicate(
  host: ReplicatePorts,
  tools: OpenDisks & NodeFiles & ImageBitmaps,
  ctx: Context,
): Promise<void> {
  const { args, state, signal, log } = ctx;
  const { vmid, target, job, rate } = args;
  const config = host.configs.get(vmid);
  checkLock(config);
  const disks = await replicatedDisks(host, vmid, config);
  const ticket = await findTicket(host, ctx.args, { signal: ctx.signal, refusal: noTicket(ctx.args) });
  const bytesPerSecond = rate === undefined ? undefined : rate * BYTES_PER_MB;
  const line = await host.moves.peers.replicaLine(ticket, { signal, ...given({ bytesPerSecond }) });
  try {
    const there = await line.state();
    const asked = { host, tools, vmid, target, disks, there: there?.generation, log };
    const step = await ReplicaStep.plan(asked);
    const process = runningVm(host, vmid);
    const folder = host.processes.placeOf(String(vmid)).ioFolder.replace(/\/io$/, "");
    state.held = {
      vmid,
      leftovers: [],
      fleeced: process === undefined ? [] : scratchFiles(disks, vmid, folder),
      wasRunning: process !== undefined && !(await isPaused(process)),
      isStopped: false,
      isFrozen: false,
    };
    await ctx.checkpoint();
    const { generation, base, whole } = step.plan;
    const offer: ReplicaOffer = {
      vmid,
      job,
      generation,
      at: Math.floor(host.clock.now() / 1000),
      disks: disks.map(({ key, volid, storage, format, size }) => {
        return { key, volid, storage, format, bytes: size, isWhole: whole.has(key) };
      }),
      ...given({ base, replaces: args.replaces }),
    };
    await line.begin(offer);
    try {
      await sendDisks({ host, tools, held: state.held, disks, step, writer: line.writer, work: ctx });
      await endFleeces(host, tools, state.held);
      await line.writer.finish();
    } catch (err) {
      await line.writer.abandon();
      await endFleeces(host, tools, state.held);
      await step.takeBack();
      throw err;
    }
    await step.commit();
    log(
      `sent ${mib(line.sent)} to node '${target}'; the copy is of ${new Date(offer.at * 1000).toISOString()}`,
    );
  } finally {
    line.close();
    await release(host, tools, ctx);
  }
}

/** QEMU keeps no old blocks any more. */
async function endFleeces(host: ReplicatePorts, tools: NodeFiles, held: HeldVm): Promise<void> {
  const process = runningVm(host, held.vmid);
  if (process !== undefined) await endFleece(process, held.fleeced, tools);
}

/** Idempotent: after a run, however it ended, and after a crash in the midst of one. */
async function release(host: ReplicatePorts, tools: NodeFiles, { state, log }: Context): Promise<void> {
  const { held } = state;
  if (held === undefined) return;
  await endFleeces(host, tools, held);
  if (held.isFrozen && runningVm(host, held.vmid) !== undefined)
    await thawFilesystems(host, held.vmid).catch((err: unknown) => log(`cannot thaw: ${String(err)}`));
  for (const { scratch } of held.fleeced) await tools.removeFile(scratch);
  delete state.held;
}

function noTicket({ vmid, target }: ReplicateArgs): string {
  return `no server has allowed this node to copy VM ${vmid} to node '${target}': ask for it again`;
}
