// vzdump: one VM into one archive.
import { messageOf } from "@gpve/contracts/errors.ts";
import {
  type BackupArchives,
  type ImageBitmaps,
  type NodeFiles,
  type OpenDisks,
  SUFFIX,
} from "@gpve/domain/backup/backup-ports.ts";
import type { VmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import { VM_TYPE } from "@gpve/domain/vm/vm-type.ts";
import { lockForBackup } from "../../guest/backup/backup-lock.ts";
import type { BackupArgs, BackupWork } from "../../guest/backup/backup-request.ts";
import type { BackupStep, GuestBackup } from "../../guest/backup/backup-run.ts";
import { createTarget, extensionOf } from "../chain/archive-target.ts";
import { planStep, type ChainStepPorts } from "../chain/chain-step.ts";
import type { StopVmPorts } from "../power/stop-vm.ts";
import { runningVm } from "../running-vm.ts";
import { archivedConfig, backupDisks, type BackupDisk } from "./backup-disks.ts";
import { copyRunning, copyStopped, endReading, haltGuest } from "./copy-guest.ts";
import { dropFleecingImages, fleecingVolumes, makeFleecingImages, type Fleeced } from "./fleecing-images.ts";
import { isPaused, releaseGuest, type HeldVm } from "./held-guest.ts";

type VmBackupTools = OpenDisks & NodeFiles & ImageBitmaps & BackupArchives;

export interface BackupVmPorts extends ChainStepPorts, StopVmPorts {}

export function vmBackup(host: BackupVmPorts, tools: VmBackupTools): GuestBackup<HeldVm> {
  return {
    type: VM_TYPE,
    configs: host.configs,
    nameOf: (vmid) => host.configs.find(vmid)?.values["name"] ?? `VM ${vmid}`,
    extension: ({ compression }) => `.vma${SUFFIX[compression]}`,
    save: (step, work) => saveVm(host, tools, step, work),
    release: (held, work) => releaseGuest(host, tools, held, work),
  };
}

async function saveVm(
  host: BackupVmPorts,
  tools: VmBackupTools,
  job: BackupStep<HeldVm>,
  work: BackupWork,
): Promise<void> {
  const { args, vmid, phase } = job;
  const { log } = work;
  let running = false;
  const { config, held } = await lockForBackup(host, job, async () => {
    const process = runningVm(host, vmid);
    running = process !== undefined;
    const wasRunning = process !== undefined && !(await isPaused(process));
    const leftovers = leftoversOf(job.path);
    return { vmid, leftovers, fleeced: [], wasRunning, isStopped: false, isFrozen: false };
  });
  try {
    log(`INFO: status = ${running ? "running" : "stopped"}`);
    if (!running) job.mode = "stop";
    log(`INFO: backup mode: ${job.mode}`);
    if (args.bwlimit > 0) log(`INFO: bandwidth limit: ${args.bwlimit} KiB/s`);
    log(`INFO: ionice priority: ${args.ionice}`);
    const name = config.values["name"];
    if (name !== undefined) log(`INFO: VM Name: ${name}`);
    const disks = await backupDisks(host, config, log);
    await dropFleecingImages(host, vmid, work);
    const step = await planStep({ ...job, host, tools, disks, willStop: job.mode === "stop" }, log);
    job.path = job.base + extensionOf(step.plan, args.compression);
    job.state.held = {
      ...held,
      leftovers: leftoversOf(job.path),
      fleeced: running ? scratchFiles(host, args, vmid, disks, config) : [],
    };
    await job.checkpoint();
    await makeFleecingImages(host, vmid, job.state.held.fleeced, disks, work);
    const copy = {
      host,
      tools,
      args,
      held: job.state.held,
      disks,
      step,
      work: { ...work, checkpoint: job.checkpoint },
    };
    await phase("backup-start");
    if (running) await phase("pre-stop");
    const haltedAt = running ? await haltGuest(copy, job.mode) : undefined;
    if (running && job.mode === "snapshot") {
      await phase("pre-restart");
      await phase("post-restart");
    }
    const conf = archivedConfig(config, disks, log, host.configs.microvm(vmid));
    log(`INFO: creating vzdump archive '${job.path}'`);
    if (disks.length === 0) log("INFO: backup contains no disks");
    const header = {
      uuid: step.uuid,
      path: job.path,
      ctime: Math.floor(host.clock.now() / 1000),
      config: conf,
      compression: args.compression,
    };
    const archive = await createTarget(tools, step.plan, header, disks);
    try {
      await (running ? copyRunning(copy, archive, job.mode, haltedAt) : copyStopped(copy, archive));
      await endReading(copy);
      await archive.finish();
    } catch (err) {
      await archive.abandon();
      await endReading(copy);
      await step.takeBack();
      throw err;
    }
    await step.commit(job.path);
    await job.keepArchive();
    await phase("backup-end");
  } finally {
    const restarted = running && job.mode !== "snapshot";
    const tell = (cause: unknown): void => work.warn(messageOf(cause));
    if (restarted) await phase("pre-restart").catch(tell);
    await releaseGuest(host, tools, job.state.held ?? held, work).catch(tell);
    if (restarted) await phase("post-restart").catch(tell);
    delete job.state.held;
    await job.checkpoint();
  }
}

/** The archive under its working name. */
function leftoversOf(path: string): string[] {
  return [`${path}.dat`, `${path}.dat.lzo`];
}

/** A template's disks do not change: nothing of them needs a place of its own. */
function scratchFiles(
  host: BackupVmPorts,
  args: BackupArgs,
  vmid: number,
  disks: readonly BackupDisk[],
  { values }: VmConfig,
): Fleeced[] {
  const storage = values["template"] === "1" ? undefined : args.fleecingStorage;
  const volumes = storage === undefined ? [] : fleecingVolumes(host, vmid, disks, storage);
  const folder = args.tmpdir ?? host.processes.placeOf(String(vmid)).ioFolder.replace(/\/io$/, "");
  return disks
    .filter(({ key }) => key !== "tpmstate0")
    .map(
      ({ key }) =>
        volumes.find((each) => each.key === key) ?? {
          key,
          scratch: `${folder}/fleece-${vmid}-${key}.qcow2`,
        },
    );
}
