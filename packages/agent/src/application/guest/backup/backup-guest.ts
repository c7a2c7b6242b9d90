// One guest of a vzdump task, of whatever kind: its archive's name, its log, the hook script's phases, what may be kept.
import { conflict, missing } from "@gpve/domain/request/failures.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import { archiveSizeText, clockText, momentText } from "@gpve/domain/backup/backup-texts.ts";
import { expandNotes } from "@gpve/domain/backup/notes-template.ts";
import { backupBaseName, NOTES_SUFFIX, PROTECTED_SUFFIX } from "@gpve/domain/storage/backup-name.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { BackupWork } from "./backup-request.ts";
import type { BackupRun, BackupStep, GuestBackup } from "./backup-run.ts";
import { countBackups, pruneOldBackups } from "./prune-old-backups.ts";

/** Whatever goes wrong, no half archive is left and the guest is as before. The log stays beside the archive. */
export async function backupGuest(
  run: BackupRun,
  { kind, clock }: { readonly kind: GuestBackup; readonly clock: Clock },
  vmid: number,
  work: BackupWork,
): Promise<void> {
  const { tools, args, target } = run;
  const started = clock.now();
  const moment = (): string => momentText(tools.localMoment(clock.now()));
  const lines: string[] = [];
  const log = (line: string): void => {
    lines.push(`${moment()} ${line}`);
    work.log(line);
  };
  const base = `${target.folder}/${await freeName(run, kind, clock, vmid)}`;
  const logFile = `${base}.log`;
  const guest = { type: kind.type, vmid, name: kind.nameOf(vmid), logFile };
  const step: BackupStep = {
    ...run,
    vmid,
    mode: args.mode,
    base,
    path: base + kind.extension(args),
    phase: (name) => run.hook(name, { ...guest, mode: step.mode, target: step.path }),
    keepArchive: () => keepArchive(step, kind, log),
  };
  const keepLog = (): Promise<void> =>
    tools
      .writeSideFile(logFile, `${lines.join("\n")}\n`)
      .catch((err: unknown) => work.warn(`the log could not be kept: ${messageOf(err)}`));
  try {
    if (!kind.configs.has(vmid)) throw missing(`unable to find VM '${vmid}'`);
    await requireRoom(run, kind, vmid);
    log(`INFO: Starting Backup of VM ${vmid} (${kind.type})`);
    log(`INFO: Backup started at ${moment()}`);
    await kind.save(step, { ...work, log });
  } catch (err) {
    log(`ERROR: Backup of VM ${vmid} failed - ${messageOf(err)}`);
    log(`INFO: Failed at ${moment()}`);
    await step.phase("backup-abort").catch((cause: unknown) => log(`ERROR: ${messageOf(cause)}`));
    await keepLog();
    throw err;
  }
  log(`INFO: Finished Backup of VM ${vmid} (${clockText(clock.now() - started)})`);
  log(`INFO: Backup finished at ${moment()}`);
  await keepLog();
  await step.phase("log-end").catch((cause: unknown) => work.warn(messageOf(cause)));
}

/** Archives are named by the second: one second, one archive. */
async function freeName(
  { tools, target }: BackupRun,
  { type }: GuestBackup,
  clock: Clock,
  vmid: number,
): Promise<string> {
  for (;;) {
    const base = backupBaseName(type, vmid, tools.localMoment(clock.now()));
    const names = await tools.listFiles(target.folder).catch(() => []);
    if (!names.some((name) => name.startsWith(`${base}.`))) return base;
    await clock.sleep(1000);
  }
}

/** What the storage or the request allows a guest to have. */
async function requireRoom(run: BackupRun, { type }: GuestBackup, vmid: number): Promise<void> {
  const { args, keep, target, tools } = run;
  const limit =
    keep["keep-all"] === true ? 0 : Object.values(keep).reduce<number>((a, b) => a + Number(b), 0);
  if (!(limit > 0 && !args.remove) && !args.isProtected) return;
  const count = await countBackups(target, tools, { type, vmid });
  if (args.isProtected) {
    if (args.maxProtected === undefined || count.protected < args.maxProtected) return;
    throw conflict(
      `The number of protected backups per guest is limited to ${args.maxProtected} on storage '${target.storage ?? ""}'`,
    );
  }
  if (count.others >= limit)
    throw conflict(
      `There is a max backup limit of ${limit} enforced by the target storage or the vzdump parameters. Either ` +
        "increase the limit or delete old backups.",
    );
}

async function keepArchive(step: BackupStep, kind: GuestBackup, log: (line: string) => void): Promise<void> {
  const { tools, args, target, keep, vmid, path } = step;
  log(`INFO: archive file size: ${archiveSizeText(await tools.fileSize(path))}`);
  if (args.notesTemplate !== undefined && args.notesTemplate !== "") {
    log("INFO: adding notes to backup");
    const facts = {
      cluster: args.cluster ?? "",
      guestname: kind.nameOf(vmid),
      node: kind.configs.node,
      vmid: String(vmid),
    };
    try {
      await tools.writeSideFile(`${path}${NOTES_SUFFIX}`, expandNotes(args.notesTemplate, facts));
    } catch (err) {
      log(`WARN: unable to add notes - ${messageOf(err)}`);
    }
  }
  if (args.isProtected) {
    log("INFO: marking backup as protected");
    await tools.writeSideFile(`${path}${PROTECTED_SUFFIX}`, "");
  }
  if (args.remove && keep["keep-all"] !== true && Object.keys(keep).length > 0)
    await pruneOldBackups(target, tools, { type: kind.type, vmid }, keep, log);
}
