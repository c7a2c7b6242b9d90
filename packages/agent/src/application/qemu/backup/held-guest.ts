// The guest whose backup runs: what is done to it, and how it gets back to what it was.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { NodeFiles } from "@gpve/domain/backup/backup-ports.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { ignore } from "@gpve/kit/background.ts";
import {
  agentOptions,
  answeringAgent,
  freezeFilesystems,
  thawFilesystems,
  type UseGuestAgentPorts,
} from "../agent/use-guest-agent.ts";
import type { BackupWork, HeldGuest } from "../../guest/backup/backup-request.ts";
import { unlockAfterBackup } from "../../guest/backup/backup-lock.ts";
import { endFleece } from "./fleece.ts";
import { dropFleecingImages, type Fleeced } from "./fleecing-images.ts";
import { runningVm } from "../running-vm.ts";
import type { VmStarter } from "../start/vm-starter.ts";
import type { GuestStorages } from "../../guest/guest-storages.ts";

export interface HeldVmPorts extends UseGuestAgentPorts {
  readonly starter: VmStarter;
  readonly storages: GuestStorages;
}

export interface HeldVm extends HeldGuest {
  readonly fleeced: readonly Fleeced[];
  /** It ran, and was not paused by anybody else: it runs again in the end. */
  readonly wasRunning: boolean;
  /** It was shut down for its backup. */
  isStopped: boolean;
  isFrozen: boolean;
}

/** Idempotent: after a backup, however it ended, and after a crash in the midst of one. */
export async function releaseGuest(
  host: HeldVmPorts,
  tools: NodeFiles,
  held: HeldVm,
  work: BackupWork,
): Promise<void> {
  const process = runningVm(host, held.vmid);
  if (process !== undefined) {
    if (held.isFrozen) await thaw(host, held, work);
    await endFleece(process, held.fleeced, tools);
  }
  const files = held.fleeced.flatMap(({ scratch, volid }) => (volid === undefined ? [scratch] : []));
  for (const path of [...held.leftovers, ...files]) await tools.removeFile(path);
  await dropFleecingImages(host, held.vmid, work);
  try {
    if (held.wasRunning) await runAgain(host, held, work);
  } finally {
    await unlockAfterBackup(host, held.vmid);
  }
}

/** File systems stand still while `work` runs, where the guest can do that; afterwards they go on in any case. */
export async function whileFrozen<T>(
  host: HeldVmPorts,
  held: HeldVm,
  work: BackupWork & { readonly checkpoint: () => Promise<void> },
  begin: () => Promise<T>,
): Promise<T> {
  const agent = agentOptions(host.configs.get(held.vmid).values);
  if (!agent.enabled) return begin();
  if (agent["freeze-fs"] === false) {
    work.log("INFO: skipping guest-agent 'fs-freeze', disabled in VM options");
    return begin();
  }
  if ((await answeringAgent(host, held.vmid, work.signal)) === undefined) {
    work.log("INFO: skipping guest-agent 'fs-freeze', agent configured but not running?");
    return begin();
  }
  work.log("INFO: issuing guest-agent 'fs-freeze' command");
  held.isFrozen = true;
  await work.checkpoint();
  try {
    await freezeFilesystems(host, held.vmid, work.signal).catch((err: unknown) => {
      work.signal.throwIfAborted();
      work.log(`ERROR: ${messageOf(err)}`);
    });
    return await begin();
  } finally {
    await thaw(host, held, work);
  }
}

async function thaw(host: HeldVmPorts, held: HeldVm, work: BackupWork): Promise<void> {
  work.log("INFO: issuing guest-agent 'fs-thaw' command");
  await thawFilesystems(host, held.vmid).catch((err: unknown) => work.log(`ERROR: ${messageOf(err)}`));
  held.isFrozen = false;
}

export async function isPaused(process: QemuProcess): Promise<boolean> {
  const { status } = await process.qmp.execute("query-status");
  return status === "paused" || status === "prelaunch";
}

async function runAgain(host: HeldVmPorts, held: HeldVm, work: BackupWork): Promise<void> {
  const process = runningVm(host, held.vmid);
  if (process !== undefined) {
    try {
      if (await isPaused(process)) {
        work.log("INFO: resume vm");
        await process.qmp.execute("cont");
      }
    } catch (err) {
      // One that has just ended has nothing to be resumed.
      if (!process.hasExited) throw err;
      ignore(err, "the guest switched itself off");
    }
    return;
  }
  // One that switched itself off while it was read stays off.
  if (!held.isStopped) return;
  work.log("INFO: restarting vm");
  await host.starter.start(
    { vmid: held.vmid, skiplock: true },
    { ...work, signal: new AbortController().signal },
  );
}
