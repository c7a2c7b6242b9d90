// Copies of a running VM's disks, made by its QEMU: to a target that is its own (clone), or to one that takes the
// place of the disk (move). Jobs and nodes have names that say whose they are, so that a crash leaves nothing unknown.
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import type { BlockDescription } from "@gpve/domain/storage/plugin.ts";
import { topNodeName } from "@gpve/domain/vm/argv/block-node.ts";
import { isQmpRefusal } from "@gpve/domain/vm/qmp/qmp-errors.ts";
import { waitForJob, type JobWait } from "@gpve/domain/vm/qmp/qmp-waits.ts";
import { ignore } from "@gpve/kit/background.ts";

export interface CopyTarget {
  readonly block: BlockDescription;
  /** Node of the image; its file is `<name>-file`, or what `fileNode` says. */
  readonly node: string;
  readonly fileNode?: string;
  /** The source does not know where it is empty: zeroes that are read become holes. */
  readonly sparse?: boolean;
}

export interface BackupJob {
  readonly id: string;
  /** "scsi0" */
  readonly key: string;
  readonly target: CopyTarget;
  readonly bytesPerSecond?: number | undefined;
}

/** One moment of all disks, each copied to its target. `quiesced` holds the guest's file systems for that moment. */
export async function backupDisks(
  process: GuestProcess,
  jobs: readonly BackupJob[],
  wait: JobWait,
  quiesced: (begin: () => Promise<unknown>) => Promise<unknown> = (begin) => begin(),
): Promise<void> {
  const { qmp } = process;
  for (const { target } of jobs) await addTarget(process, target);
  const actions = jobs.map(({ id, key, target, bytesPerSecond }) => ({
    type: "blockdev-backup",
    data: {
      "job-id": id,
      device: topNodeName(key),
      target: target.node,
      sync: "full",
      ...(bytesPerSecond === undefined ? {} : { speed: bytesPerSecond }),
      "auto-dismiss": false,
    },
  }));
  await quiesced(() => qmp.execute("transaction", { actions }));
  for (const { id, target } of jobs) {
    await waitForJob(qmp, id, ["concluded"], wait);
    await qmp.execute("job-dismiss", { id });
    await removeTarget(process, target);
  }
}

/** The disk is copied while it is written to; in the end the guest goes on with the copy. */
export async function mirrorDisk(
  process: GuestProcess,
  job: BackupJob & { readonly replaces: string },
  wait: JobWait,
): Promise<void> {
  const { qmp } = process;
  await addTarget(process, job.target);
  await qmp.execute("blockdev-mirror", {
    "job-id": job.id,
    device: topNodeName(job.key),
    target: job.target.node,
    replaces: job.replaces,
    sync: "full",
    ...(job.bytesPerSecond === undefined ? {} : { speed: job.bytesPerSecond }),
    "auto-dismiss": false,
  });
  await finishMirror(process, job, wait);
}

/**
 * Also for a job that was begun before a restart of ours. The disk that was replaced goes before the job does: whoever
 * finds neither knows that the guest writes to the copy.
 */
export async function finishMirror(
  process: GuestProcess,
  { id, replaces }: { readonly id: string; readonly replaces: string },
  wait: JobWait,
): Promise<void> {
  const { qmp } = process;
  const { status } = await waitForJob(qmp, id, ["ready", "concluded"], wait);
  if (status === "ready") {
    await qmp.execute("job-complete", { id });
    await waitForJob(qmp, id, ["concluded"], wait);
  }
  // QEMU drops a disk that it was started with by itself; one that came by an earlier move it keeps for us.
  await removeNode(process, replaces);
  await qmp.execute("job-dismiss", { id });
}

export async function hasJob(process: GuestProcess, id: string): Promise<boolean> {
  return (await process.qmp.execute("query-jobs")).some((job) => job.id === id);
}

/** Ends a job and takes its target away; neither needs to be there. */
export async function dropCopy(process: GuestProcess, id: string, target: CopyTarget): Promise<void> {
  const { qmp } = process;
  if (await hasJob(process, id)) {
    await qmp
      .execute("job-cancel", { id })
      .catch((err: unknown) => ignore(err, "it may have ended by itself"));
    await waitForJob(qmp, id, ["concluded"]).catch((err: unknown) => ignore(err, "cancelled is an end too"));
    await qmp.execute("job-dismiss", { id }).catch((err: unknown) => ignore(err, "it may be gone already"));
  }
  await removeTarget(process, target);
}

export async function hasNode(process: GuestProcess, node: string): Promise<boolean> {
  const nodes = await process.qmp.execute("query-named-block-nodes", { flat: true });
  return nodes.some((each) => each["node-name"] === node);
}

async function addTarget(
  process: GuestProcess,
  { block, node, fileNode, sparse }: CopyTarget,
): Promise<void> {
  await process.allowFile({ path: block.filename, access: "rw" });
  await process.qmp.execute("blockdev-add", {
    driver: block.format,
    "node-name": node,
    discard: "unmap",
    ...(sparse === true ? { "detect-zeroes": "unmap" } : {}),
    file: { driver: block.driver, filename: block.filename, "node-name": fileNode ?? `${node}-file` },
  });
}

async function removeNode(process: GuestProcess, node: string): Promise<void> {
  await process.qmp.execute("blockdev-del", { "node-name": node }).catch((err: unknown) => {
    if (!isQmpRefusal(err)) throw err;
    ignore(err, "it is not there");
  });
}

async function removeTarget(process: GuestProcess, { block, node }: CopyTarget): Promise<void> {
  await removeNode(process, node);
  await process.forbidFile(block.filename).catch((err: unknown) => ignore(err, "it was never allowed"));
}
