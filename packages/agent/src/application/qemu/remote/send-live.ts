// A running VM on its way to another cluster. No store knows both: the other cluster decides, once, whether it goes on there,
// and its task says which. Until it is asked to, whatever fails leaves the guest running here; from then on it stands still
// until the answer is known.
import { given } from "@gpve/contracts/given.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import { conflict } from "@gpve/domain/request/failures.ts";
import type { VmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import {
  isRemoteTunnel,
  type RemoteCluster,
  type RemoteTunnel,
} from "@gpve/domain/vm/migrate/remote-cluster.ts";
import {
  remoteCreateParams,
  requireLeavable,
  type RemoteDisk,
  type DiskOrigin,
} from "@gpve/domain/vm/migrate/remote-move.ts";
import type { ReachCluster } from "@gpve/domain/vm/migrate/remote-cluster.ts";
import type { StorageMap } from "@gpve/domain/vm/migrate/storage-map.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { LeftAsItIs, type StepContext } from "@gpve/kit/operation/definition.ts";
import { volumeOf, type GuestStorages } from "../../guest/guest-storages.ts";
import { keepHere, persistently, streamVm } from "../migrate/send-vm.ts";
import { runningVm, type RunningPorts } from "../running-vm.ts";
import type { RamStatePorts } from "../snapshot/ram-state.ts";
import { RemoteTaskFailed, waitForTask } from "./remote-task.ts";

export interface LivePorts extends RunningPorts, RamStatePorts {
  readonly storages: GuestStorages;
  readonly clock: Clock;
  readonly reach: ReachCluster;
}

export interface LiveState {
  /** The guest was sent while it ran. */
  live?: { readonly isPaused: boolean };
  /** A VM was made there for it; who it is led by there sees to its end. */
  made?: "alone" | "led";
  /** The other cluster was asked to let it go on: only that cluster knows whether it does. */
  asked?: boolean;
  done?: boolean;
}

interface LiveArgs {
  readonly vmid: number;
  readonly targetVmid: number;
  readonly bwlimit?: number;
}

type Context = StepContext<LiveArgs, LiveState>;

export interface Leaving {
  readonly remote: RemoteCluster;
  /** The same cluster, whatever becomes of the task. */
  readonly reachAgain: () => RemoteCluster;
  readonly config: VmConfig;
  readonly disks: readonly RemoteDisk[];
  readonly maps: { readonly storages: StorageMap; readonly bridges: StorageMap };
  readonly process: QemuProcess;
}

const ASK_AGAIN_MS = 1_000;

/** Resolves when it goes on there, and nothing of it runs here. */
export async function sendLive(host: LivePorts, leaving: Leaving, ctx: Context): Promise<void> {
  const { remote, process, config } = leaving;
  const { state, log, args } = ctx;
  requireLeavable(args.vmid, config);
  const { status } = await process.qmp.execute("query-status", undefined, { signal: ctx.signal });
  const isPaused = status !== "running";
  state.live = { isPaused };
  await ctx.checkpoint();
  const tunnel = await makeThere(host, leaving, ctx);
  const peer = await remote.peer(args.targetVmid, tunnel, ctx.signal);
  const signal = AbortSignal.any([ctx.signal, peer.lost]);
  let close = async (): Promise<void> => peer.close();
  try {
    const { machine, cpu } = (process.note ?? {}) as { readonly machine?: string; readonly cpu?: string };
    const keys = leaving.disks.map(({ key }) => key);
    const work = { ...ctx, signal, ...given({ bwlimit: args.bwlimit }) };
    const sent = await persistently(host, process, work, async (care) => {
      const { vmgenid } = config.values;
      await peer.start({ isPaused, disks: keys, ...given({ machine, cpu, vmgenid }) }, signal);
      log("the other cluster is ready for it");
      const ram = await peer.forward(process, "ram");
      return streamVm(host, peer, process, config.values, leaving.disks, { ...work, ...care, ram });
    });
    ({ close } = sent);
    signal.throwIfAborted();
    state.asked = true;
    await ctx.checkpoint();
    await peer.commit().catch((err: unknown) => findOut(host, leaving, tunnel, ctx, err));
    const { stoppedAt } = sent;
    const still =
      stoppedAt === undefined ? "" : `, ${host.clock.now() - stoppedAt} ms after it last ran here`;
    log(`VM ${args.targetVmid} goes on there${still}`);
    state.done = true;
    await ctx.checkpoint();
  } catch (err) {
    throw peer.lost.aborted && !ctx.signal.aborted && state.asked !== true ? peer.lost.reason : err;
  } finally {
    await close();
  }
  await process.kill();
}

/** A VM like it, with empty disks, and a line to it. */
async function makeThere(host: LivePorts, leaving: Leaving, ctx: Context): Promise<RemoteTunnel> {
  const { remote, config, disks, maps } = leaving;
  const { state, log, args, signal } = ctx;
  const origins: Record<string, DiskOrigin> = {};
  for (const { key, volid } of disks) {
    const { plugin, volname } = volumeOf(host, volid);
    await plugin.activate();
    origins[key] = { bytes: (await plugin.info(volname)).size };
  }
  const params = remoteCreateParams(config, args.targetVmid, disks, origins, maps);
  await waitForTask(host, remote, String(await remote.call("POST", "/nodes/localhost/qemu", params)), signal);
  state.made = "alone";
  await ctx.checkpoint();
  log(`VM ${args.targetVmid} was made there`);
  const path = `/nodes/localhost/qemu/${args.targetVmid}/mtunnel`;
  const storages = [...new Set(disks.map(({ storage }) => storage))].join(",");
  const tunnel = await remote.call("POST", path, storages === "" ? {} : { storages });
  if (!isRemoteTunnel(tunnel)) throw conflict("the other cluster offers no line for VMs that run");
  state.made = "led";
  await ctx.checkpoint();
  return tunnel;
}

/** The answer was lost, or it was no: the task there ends one way or the other. Not to be interrupted. */
async function findOut(
  host: LivePorts,
  { reachAgain }: Leaving,
  { upid }: RemoteTunnel,
  { state, log }: Context,
  cause: unknown,
): Promise<void> {
  log(`whether it goes on there is not known yet: ${messageOf(cause)}`);
  for (;;) {
    try {
      await waitForTask(host, reachAgain(), upid);
      return;
    } catch (err) {
      if (err instanceof RemoteTaskFailed) {
        state.asked = false;
        throw err;
      }
      log(`${messageOf(err)}; trying again: until the other cluster answers the guest stands still`);
      await host.clock.sleep(ASK_AGAIN_MS);
    }
  }
}

/** It was not sent after all: it goes on here. */
export async function keepLive(
  host: LivePorts,
  remote: RemoteCluster | undefined,
  { args, state, log }: Context,
): Promise<void> {
  const { vmid, targetVmid } = args;
  if (state.live === undefined || state.done === true) return;
  if (state.asked === true)
    throw new LeftAsItIs(
      `whether VM ${vmid} goes on in the other cluster, as VM ${targetVmid}, is not known: look there. If it does, destroy it here; if not, remove VM ${targetVmid} there and resume VM ${vmid}`,
    );
  const process = runningVm(host, vmid);
  if (process !== undefined) await keepHere(host, process, state.live.isPaused);
  log(`VM ${vmid} runs on here`);
  if (state.made !== "alone") return;
  if (remote === undefined) log(`VM ${targetVmid}, which was made for it, is left there`);
  else
    await remote
      .call("DELETE", `/nodes/localhost/qemu/${targetVmid}`)
      .catch((err: unknown) => log(`VM ${targetVmid} is left there: ${messageOf(err)}`));
}
