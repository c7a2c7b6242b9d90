// Copies of a running VM's disks, made by its QEMU. Jobs and nodes have names that say whose they are, so that a crash
// leaves nothing unknown.
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { hostFile, type ImageLayer } from "@gpve/domain/storage/block-node.ts";
import { isQmpRefusal } from "@gpve/domain/vm/qmp/qmp-errors.ts";
import type { TransactionAction } from "@gpve/domain/vm/qmp/qmp-types.ts";
import { waitForJob, type JobWait } from "@gpve/domain/vm/qmp/qmp-waits.ts";
import { ignore } from "@gpve/kit/background.ts";
import { presentTop } from "./top-node.ts";

export interface CopyTarget {
  readonly block: ImageLayer;
  /** Node of the image; its file is `<name>-file`. */
  readonly node: string;
}

export interface DiskCopy {
  readonly id: string;
  /** "scsi0" */
  readonly key: string;
  readonly target: CopyTarget;
  readonly bytesPerSecond?: number | undefined;
}

/** One moment of all disks, each copied to its target. `quiesced` holds the guest's file systems for that moment. */
export async function copyAtOneMoment(
  process: QemuProcess,
  jobs: readonly DiskCopy[],
  wait: JobWait,
  quiesced: (begin: () => Promise<unknown>) => Promise<unknown> = (begin) => begin(),
): Promise<void> {
  const { qmp } = process;
  for (const { target } of jobs) await addTarget(process, target);
  const actions: TransactionAction[] = [];
  for (const { id, key, target, bytesPerSecond } of jobs) {
    const device = await presentTop(process, key);
    const speed = bytesPerSecond === undefined ? {} : { speed: bytesPerSecond };
    actions.push({
      type: "blockdev-backup",
      data: { "job-id": id, device, target: target.node, sync: "full", ...speed, "auto-dismiss": false },
    });
  }
  await quiesced(() => qmp.execute("transaction", { actions }));
  for (const { id, target } of jobs) {
    await waitForJob(qmp, id, ["concluded"], wait);
    await qmp.execute("job-dismiss", { id });
    await removeTarget(process, target);
  }
}

export async function hasJob(process: QemuProcess, id: string): Promise<boolean> {
  return (await process.qmp.execute("query-jobs")).some((job) => job.id === id);
}

/** Ends a job and takes its target away; neither needs to be there. */
export async function dropCopy(process: QemuProcess, id: string, target: CopyTarget): Promise<void> {
  await endJob(process, id);
  await removeTarget(process, target);
}

/** The same of several whose targets are known, but not which is whose: the guest reaches none of the files any more. */
export async function dropCopies(
  process: QemuProcess,
  ids: readonly string[],
  files: readonly string[],
): Promise<void> {
  for (const id of ids) {
    await endJob(process, id);
    await removeBlockNode(process, id);
  }
  for (const file of files)
    await process.forbidFile(file).catch((err: unknown) => ignore(err, "it was never allowed"));
}

export async function endJob(process: QemuProcess, id: string): Promise<void> {
  const { qmp } = process;
  if (!(await hasJob(process, id))) return;
  await qmp.execute("job-cancel", { id }).catch((err: unknown) => ignore(err, "it may have ended by itself"));
  await waitForJob(qmp, id, ["concluded"]).catch((err: unknown) => ignore(err, "cancelled is an end too"));
  await qmp.execute("job-dismiss", { id }).catch((err: unknown) => ignore(err, "it may be gone already"));
}

export async function hasNode(process: QemuProcess, node: string): Promise<boolean> {
  const nodes = await process.qmp.execute("query-named-block-nodes", { flat: true });
  return nodes.some((each) => each["node-name"] === node);
}

async function addTarget(process: QemuProcess, { block, node }: CopyTarget): Promise<void> {
  const path = hostFile(block.node);
  if (path !== undefined) await process.allowFile({ path, access: "rw" });
  await process.qmp.execute("blockdev-add", {
    driver: block.format,
    "node-name": node,
    discard: "unmap",
    file: { ...block.node, "node-name": `${node}-file` },
  });
}

export async function removeBlockNode(process: QemuProcess, node: string): Promise<void> {
  await process.qmp.execute("blockdev-del", { "node-name": node }).catch((err: unknown) => {
    if (!isQmpRefusal(err)) throw err;
    ignore(err, "it is not there");
  });
}

async function removeTarget(process: QemuProcess, { block, node }: CopyTarget): Promise<void> {
  await removeBlockNode(process, node);
  const path = hostFile(block.node);
  if (path !== undefined)
    await process.forbidFile(path).catch((err: unknown) => ignore(err, "it was never allowed"));
}
