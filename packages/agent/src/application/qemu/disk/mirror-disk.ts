// A running VM's disk is copied while it is written to; in the end the guest goes on with the copy.
import { given } from "@gpve/contracts/given.ts";
import type { GuestFile } from "@gpve/domain/guest/guest-processes.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { copyNodes, type CopyNodes } from "@gpve/domain/vm/argv/block/copy-nodes.ts";
import { printDrive, requireDrive } from "@gpve/domain/vm/config/drive.ts";
import { isQmpRefusal } from "@gpve/domain/vm/qmp/qmp-errors.ts";
import { waitForJob, type JobWait } from "@gpve/domain/vm/qmp/qmp-waits.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { ignore } from "@gpve/kit/background.ts";
import { runningInput, type LiveWork } from "../live/guest-devices.ts";
import { resolveVolumes } from "../start/start-plan.ts";
import { endJob, removeBlockNode } from "./qemu-copy.ts";
import { presentTop, topNodes } from "./top-node.ts";

export interface MirrorJob {
  readonly id: string;
  /** "scsi0" */
  readonly key: string;
  readonly nodes: CopyNodes;
  readonly files: readonly GuestFile[];
  readonly bytesPerSecond?: number | undefined;
}

/** `values` is the running configuration; the copy is made on `volid`. */
export async function mirrorJob(
  work: LiveWork,
  values: VmValues,
  what: { id: string; key: string; volid: string; bytesPerSecond?: number },
): Promise<MirrorJob> {
  const { id, key, volid, bytesPerSecond } = what;
  const { format: _format, ...old } = requireDrive(key, values[key] ?? "");
  const drive = { ...old, file: volid };
  // QEMU writes the copy of a disk that the guest only reads.
  const { ro: _ro, ...filled } = drive;
  const { resolved, files } = await resolveVolumes(work.host, { [key]: printDrive(key, filled) });
  const after = { ...values, [key]: printDrive(key, drive) };
  const input = runningInput(work, after, { resolved });
  return { id, key, nodes: copyNodes(input, key, drive), files, bytesPerSecond };
}

export async function mirrorDisk(process: QemuProcess, job: MirrorJob, wait: JobWait): Promise<void> {
  const { qmp } = process;
  const { top, throttleGroup, blockdev } = job.nodes;
  for (const file of job.files) await process.allowFile(file);
  await qmp.raw("object-add", throttleGroup);
  await qmp.raw("blockdev-add", blockdev);
  await qmp.execute("blockdev-mirror", {
    "job-id": job.id,
    device: await presentTop(process, job.key),
    target: top,
    sync: "full",
    ...given({ speed: job.bytesPerSecond }),
    "auto-dismiss": false,
  });
  await finishMirror(process, job, wait);
}

/** Also for a job that was begun before a restart of ours: as long as it is there, something is left to do. */
export async function finishMirror(process: QemuProcess, job: MirrorJob, wait: JobWait): Promise<void> {
  const { qmp } = process;
  const { id } = job;
  const { status } = await waitForJob(qmp, id, ["ready", "concluded"], wait);
  if (status === "ready") {
    await qmp.execute("job-complete", { id });
    await waitForJob(qmp, id, ["concluded"], wait);
  }
  await settleCopy(process, job);
  await qmp.execute("job-dismiss", { id });
}

/** Limits apply to the copy from here on, and what the guest used before goes. */
export async function settleCopy(process: QemuProcess, { key, nodes }: MirrorJob): Promise<void> {
  const { qmp } = process;
  const { top, settled, throttleGroup } = nodes;
  if (settled !== undefined) await qmp.execute("blockdev-reopen", { options: [settled] });
  for (const name of await topNodes(process, key))
    if (name !== top) await qmp.execute("blockdev-del", { "node-name": name });
  await removeGroup(process, throttleGroup.id);
}

/** The guest writes to the copy; there is no way back. */
export async function isOnCopy(process: QemuProcess, { key, nodes }: MirrorJob): Promise<boolean> {
  return (await presentTop(process, key)) === nodes.top;
}

/** Ends the job and takes the copy away, unless the guest is on it already. Nothing needs to be there. */
export async function dropMirror(process: QemuProcess, job: MirrorJob): Promise<"dropped" | "on copy"> {
  await endJob(process, job.id);
  if (await isOnCopy(process, job)) return "on copy";
  await removeBlockNode(process, job.nodes.top);
  await removeGroup(process, job.nodes.throttleGroup.id);
  for (const { path } of job.files)
    await process.forbidFile(path).catch((err: unknown) => ignore(err, "it was never allowed"));
  return "dropped";
}

async function removeGroup({ qmp }: QemuProcess, id: string): Promise<void> {
  await qmp.execute("object-del", { id }).catch((err: unknown) => {
    if (!isQmpRefusal(err)) throw err;
    ignore(err, "it is not there");
  });
}
