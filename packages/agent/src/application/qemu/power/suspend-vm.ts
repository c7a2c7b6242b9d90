// Suspending a VM to disk: its RAM is written to a volume and QEMU ends; the next start goes on from there.
import { civilTime } from "../../storage/local-time.ts";
import { hasLock } from "@gpve/domain/guest/guest-lock.ts";
import { beginSuspend, endSuspend, finishSuspend } from "@gpve/domain/vm/snapshot/suspend.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import { freeVolume } from "../config/free-volumes.ts";
import { letGo } from "../snapshot/hold-guest.ts";
import { cancelMigration, RamSave } from "../snapshot/ram-state.ts";
import { SAVED_RAM, allocateRamVolume, stateStorage, type RamVolumePorts } from "../snapshot/ram-volume.ts";
import { requireRunningVm, runningVm } from "../running-vm.ts";
import { attachedFile } from "../../guest/guest-storages.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { RamStreams } from "@gpve/domain/vm/snapshot/ram-streams.ts";

export interface SuspendVmPorts extends RamVolumePorts {
  readonly clock: Clock;
  readonly ram: RamStreams;
}

export interface SuspendArgs {
  readonly vmid: number;
  readonly skiplock: boolean;
  /** Where the RAM goes; default: as for snapshots. */
  readonly storage?: string;
}

interface SuspendState {
  vmstate?: string;
  /** False = the guest was paused before. */
  resumes?: boolean;
}

type Context = StepContext<SuspendArgs, SuspendState>;

export function suspendVmOperation(host: SuspendVmPorts): OperationDefinition<SuspendArgs, SuspendState> {
  return {
    type: "qmsuspend",
    lock: "suspending",
    steps: [
      { name: "save", weight: 8, run: (ctx) => save(host, ctx), undo: (ctx) => takeBack(host, ctx) },
      {
        name: "end",
        run: async ({ args, log, signal }) => {
          // First the mark, then the end: a crash in between finds a guest that can still go on.
          await host.configs.change(args.vmid, (config) =>
            hasLock(config, "suspended") ? config : finishSuspend(config),
          );
          log("State saved, quitting");
          await runningVm(host, args.vmid)?.stop({ signal });
        },
      },
    ],
  };
}

async function save(host: SuspendVmPorts, ctx: Context): Promise<void> {
  const { vmid, skiplock, storage } = ctx.args;
  // A second go begins anew.
  await takeBack(host, ctx);
  const process = requireRunningVm(host, vmid);
  const config = host.configs.get(vmid);
  // A refusal must come before anything is made.
  beginSuspend(config, { vmstate: "", runningmachine: "" }, skiplock);
  const { status } = await process.qmp.execute("query-status");
  const saved = await allocateRamVolume(
    host,
    config.values,
    { vmid, storage: storage ?? stateStorage(host.storages, config.values), name: `suspend-${today(host)}` },
    {
      signal: ctx.signal,
      begun: async (vmstate) => {
        ctx.state.vmstate = vmstate;
        ctx.state.resumes = status === "running";
        await ctx.checkpoint();
      },
    },
  );
  await host.configs.change(vmid, (current) => beginSuspend(current, saved, skiplock));
  ctx.log(`saving VM state to '${saved.vmstate}'`);
  const file = await attachedFile(host, saved.vmstate, SAVED_RAM);
  const ram = await RamSave.begin(host, process, file, ctx.signal);
  try {
    await ram.finish();
  } catch (err) {
    await ram.cancel();
    throw err;
  }
}

/** The guest goes on as it was, and nothing is kept; one that is suspended already stays that. */
async function takeBack(host: SuspendVmPorts, { args, state, log }: Context): Promise<void> {
  const { vmid } = args;
  if (state.vmstate === undefined) return;
  const process = runningVm(host, vmid);
  if (process === undefined && hasLock(host.configs.get(vmid), "suspended")) return;
  if (process !== undefined) {
    await cancelMigration(host, process);
    await letGo(process, state.resumes !== false);
  }
  await host.configs.change(vmid, (config) =>
    config.values["vmstate"] === state.vmstate ? endSuspend(config) : config,
  );
  await freeVolume(host, state.vmstate, log);
}

function today(host: SuspendVmPorts): string {
  const { year, month, day } = civilTime(Math.floor(host.clock.now() / 1000));
  return [year, String(month).padStart(2, "0"), String(day).padStart(2, "0")].join("-");
}
