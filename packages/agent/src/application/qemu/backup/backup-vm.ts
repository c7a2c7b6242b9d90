// vzdump: one VM into one archive.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { SUFFIX, type BackupTools } from "@gpve/domain/backup/backup-ports.ts";
import { archiveSizeText, clockText, momentText } from "@gpve/domain/backup/backup-texts.ts";
import { expandNotes } from "@gpve/domain/backup/notes-template.ts";
import { backupBaseName, NOTES_SUFFIX, PROTECTED_SUFFIX } from "@gpve/domain/storage/backup-name.ts";
import { setLock } from "@gpve/domain/guest/guest-lock.ts";
import type { VmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import { archivedConfig, backupDisks, type BackupDisk } from "./backup-disks.ts";
import type { BackupMode, BackupState, BackupWork } from "../../guest/backup/backup-request.ts";
import type { BackupRun, GuestBackup } from "../../guest/backup/backup-run.ts";
import { createTarget, extensionOf } from "../chain/archive-target.ts";
import { planStep, type ChainStepPorts } from "../chain/chain-step.ts";
import { copyRunning, copyStopped, endReading, haltGuest } from "./copy-guest.ts";
import { dropFleecingImages, fleecingVolumes, makeFleecingImages, type Fleeced } from "./fleecing-images.ts";
import { isPaused, releaseGuest } from "./held-guest.ts";
import { countBackups, pruneOldBackups } from "../../guest/backup/prune-old-backups.ts";
import { runningVm } from "../running-vm.ts";
import type { StopVmPorts } from "../power/stop-vm.ts";
import { VM_TYPE } from "@gpve/domain/vm/vm-type.ts";

export interface BackupVmPorts extends ChainStepPorts, StopVmPorts {}

interface VmBackupRun extends BackupRun {
  readonly host: BackupVmPorts;
}

export function vmBackup(host: BackupVmPorts, tools: BackupTools): GuestBackup {
  return {
    save: (run, vmid, work) => backupVm({ ...run, host }, vmid, work),
    release: (held, work) => releaseGuest(host, tools, held, work),
  };
}

interface Plan {
  readonly vmid: number;
  /** "stop" once it is known that the guest does not run. */
  mode: BackupMode;
  /** The archive's path without its extension. */
  readonly base: string;
  /** Known when it is known whether it is a full archive. */
  path: string;
  readonly logFile: string;
}

/** Whatever goes wrong, no half archive is left and the VM is as before. The log stays beside the archive. */
async function backupVm(job: VmBackupRun, vmid: number, work: BackupWork): Promise<void> {
  const { host, tools, args, target, hook } = job;
  const started = host.clock.now();
  const moment = (): string => momentText(tools.civilTime(host.clock.now()));
  const lines: string[] = [];
  const log = (line: string): void => {
    lines.push(`${moment()} ${line}`);
    work.log(line);
  };
  const base = await freeName(job, vmid);
  const plan: Plan = {
    vmid,
    mode: args.mode,
    base: `${target.folder}/${base}`,
    path: `${target.folder}/${base}.vma${SUFFIX[args.compression]}`,
    logFile: `${target.folder}/${base}.log`,
  };
  const guest = { type: VM_TYPE, vmid, name: nameOf(host, vmid), logFile: plan.logFile };
  const phase = (name: string): Promise<void> => hook(name, { ...guest, mode: plan.mode, target: plan.path });
  try {
    await attempt(job, plan, phase, { ...work, log });
  } catch (err) {
    log(`ERROR: Backup of VM ${vmid} failed - ${messageOf(err)}`);
    log(`INFO: Failed at ${moment()}`);
    await phase("backup-abort").catch((cause: unknown) => log(`ERROR: ${messageOf(cause)}`));
    await keepLog(tools, plan, lines, work);
    throw err;
  }
  log(`INFO: Finished Backup of VM ${vmid} (${clockText(host.clock.now() - started)})`);
  log(`INFO: Backup finished at ${moment()}`);
  await keepLog(tools, plan, lines, work);
  await phase("log-end").catch((cause: unknown) => work.warn(messageOf(cause)));
}

/** Archives are named by the second: one second, one archive. */
async function freeName({ host, tools, target }: VmBackupRun, vmid: number): Promise<string> {
  for (;;) {
    const base = backupBaseName(VM_TYPE, vmid, tools.civilTime(host.clock.now()));
    const names = await tools.listFiles(target.folder).catch(() => []);
    if (!names.some((name) => name.startsWith(`${base}.`))) return base;
    await host.clock.sleep(1000);
  }
}

async function attempt(
  job: VmBackupRun,
  plan: Plan,
  hook: (phase: string) => Promise<void>,
  work: BackupWork,
): Promise<void> {
  const { host, tools, args } = job;
  const { log } = work;
  if (!host.configs.has(plan.vmid))
    throw new AppError("object.not_found", `unable to find VM '${plan.vmid}'`, { pveStatus: 500 });
  await requireRoom(job, plan.vmid);
  log(`INFO: Starting Backup of VM ${plan.vmid} (qemu)`);
  log(`INFO: Backup started at ${momentText(tools.civilTime(host.clock.now()))}`);
  const held = await hold(job, plan);
  const { config, running } = held;
  try {
    log(`INFO: status = ${running ? "running" : "stopped"}`);
    if (!running) plan.mode = "stop";
    log(`INFO: backup mode: ${plan.mode}`);
    if (args.bwlimit > 0) log(`INFO: bandwidth limit: ${args.bwlimit} KiB/s`);
    log(`INFO: ionice priority: ${args.ionice}`);
    const name = config.values["name"];
    if (name !== undefined) log(`INFO: VM Name: ${name}`);
    const disks = await backupDisks(host, config, log);
    await dropFleecingImages(host, plan.vmid, work);
    const step = await planStep({ ...job, vmid: plan.vmid, disks, willStop: plan.mode === "stop" }, log);
    plan.path = plan.base + extensionOf(step.plan, args.compression);
    job.state.held = {
      ...held.guest,
      leftovers: leftoversOf(plan.path),
      fleeced: running ? scratchFiles(job, plan.vmid, disks, config) : [],
    };
    await job.checkpoint();
    await makeFleecingImages(host, plan.vmid, job.state.held.fleeced, disks, work);
    const copy = {
      host,
      tools,
      args,
      held: job.state.held,
      disks,
      step,
      work: { ...work, checkpoint: job.checkpoint },
    };
    await hook("backup-start");
    if (running) await hook("pre-stop");
    const haltedAt = running ? await haltGuest(copy, plan.mode) : undefined;
    if (running && plan.mode === "snapshot") {
      await hook("pre-restart");
      await hook("post-restart");
    }
    const conf = archivedConfig(config, disks, log, host.configs.microvm(plan.vmid));
    log(`INFO: creating vzdump archive '${plan.path}'`);
    if (disks.length === 0) log("INFO: backup contains no disks");
    const header = {
      uuid: step.uuid,
      path: plan.path,
      ctime: Math.floor(host.clock.now() / 1000),
      config: conf,
      compression: args.compression,
    };
    const archive = await createTarget(tools, step.plan, header, disks);
    try {
      await (running ? copyRunning(copy, archive, plan.mode, haltedAt) : copyStopped(copy, archive));
      await endReading(copy);
      await archive.finish();
    } catch (err) {
      await archive.abandon();
      await endReading(copy);
      await step.takeBack();
      throw err;
    }
    await step.commit(plan.path);
    await keepArchive(job, plan, name ?? `VM ${plan.vmid}`, log);
    await hook("backup-end");
  } finally {
    const restarted = running && plan.mode !== "snapshot";
    const tell = (cause: unknown): void => work.warn(messageOf(cause));
    if (restarted) await hook("pre-restart").catch(tell);
    await releaseGuest(host, tools, job.state.held ?? held.guest, work).catch(tell);
    if (restarted) await hook("post-restart").catch(tell);
    delete job.state.held;
    await job.checkpoint();
  }
}

/**
 * Locks the VM; from here on a restart knows what to put right. Whether it runs is asked only then: somebody may just be
 * starting or stopping it.
 */
async function hold(
  job: VmBackupRun,
  { vmid, path }: Plan,
): Promise<{ config: VmConfig; guest: NonNullable<BackupState["held"]>; running: boolean }> {
  const { host, state, checkpoint } = job;
  return job.whileFree(vmid, async () => {
    // Refused before it is noted: a lock that somebody else has is not ours to take away.
    setLock(host.configs.get(vmid), "backup");
    const process = runningVm(host, vmid);
    const wasRunning = process !== undefined && !(await isPaused(process));
    const guest = {
      vmid,
      leftovers: leftoversOf(path),
      fleeced: [],
      wasRunning,
      isStopped: false,
      isFrozen: false,
    };
    state.held = guest;
    await checkpoint();
    const config = await host.configs.change(vmid, (before) => setLock(before, "backup"));
    return { config, guest, running: process !== undefined };
  });
}

/** The archive under its working name. */
function leftoversOf(path: string): string[] {
  return [`${path}.dat`, `${path}.dat.lzo`];
}

/** A template's disks do not change: nothing of them needs a place of its own. */
function scratchFiles(
  { host, args }: VmBackupRun,
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

/** What the storage or the request allows a guest to have. */
async function requireRoom(job: VmBackupRun, vmid: number): Promise<void> {
  const { args, keep, target, tools } = job;
  const limit =
    keep["keep-all"] === true ? 0 : Object.values(keep).reduce<number>((a, b) => a + Number(b), 0);
  if (!(limit > 0 && !args.remove) && !args.isProtected) return;
  const count = await countBackups(target, tools, { type: VM_TYPE, vmid });
  if (args.isProtected) {
    if (args.maxProtected === undefined || count.protected < args.maxProtected) return;
    throw refused(
      `The number of protected backups per guest is limited to ${args.maxProtected} on storage '${target.storage ?? ""}'`,
    );
  }
  if (count.others >= limit)
    throw refused(
      `There is a max backup limit of ${limit} enforced by the target storage or the vzdump parameters. Either ` +
        "increase the limit or delete old backups.",
    );
}

/** Notes, protection, and what has to go for the new one. */
async function keepArchive(
  job: VmBackupRun,
  plan: Plan,
  name: string,
  log: (line: string) => void,
): Promise<void> {
  const { host, tools, args, target, keep } = job;
  log(`INFO: archive file size: ${archiveSizeText(await tools.fileSize(plan.path))}`);
  if (args.notesTemplate !== undefined && args.notesTemplate !== "") {
    log("INFO: adding notes to backup");
    const facts = {
      cluster: args.cluster ?? "",
      guestname: name,
      node: host.configs.node,
      vmid: String(plan.vmid),
    };
    try {
      await tools.writeSideFile(`${plan.path}${NOTES_SUFFIX}`, expandNotes(args.notesTemplate, facts));
    } catch (err) {
      log(`WARN: unable to add notes - ${messageOf(err)}`);
    }
  }
  if (args.isProtected) {
    log("INFO: marking backup as protected");
    await tools.writeSideFile(`${plan.path}${PROTECTED_SUFFIX}`, "");
  }
  if (args.remove && keep["keep-all"] !== true && Object.keys(keep).length > 0)
    await pruneOldBackups(target, tools, { type: VM_TYPE, vmid: plan.vmid }, keep, log);
}

async function keepLog(
  tools: BackupTools,
  { logFile }: Plan,
  lines: readonly string[],
  work: BackupWork,
): Promise<void> {
  await tools
    .writeSideFile(logFile, `${lines.join("\n")}\n`)
    .catch((err: unknown) => work.warn(`the log could not be kept: ${messageOf(err)}`));
}

function nameOf(host: BackupVmPorts, vmid: number): string {
  return host.configs.find(vmid)?.values["name"] ?? `VM ${vmid}`;
}

function refused(message: string): AppError {
  return new AppError("object.conflict", message, { pveStatus: 500 });
}
