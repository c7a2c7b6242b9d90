// A running VM's disks as they were at one moment: before the guest overwrites a block, QEMU copies the old one into a
// scratch image; what is read through the export is scratch first, disk otherwise.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import type { TransactionAction } from "@gpve/domain/vm/qmp/qmp-types.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { ExportPlace, NodeFiles } from "@gpve/domain/backup/backup-ports.ts";
import { presentTop } from "../disk/top-node.ts";

export interface FleeceDisk {
  /** "scsi0" */
  readonly key: string;
  readonly size: number;
  /** The file that holds what the guest overwrites. */
  readonly scratch: string;
  /** A bitmap below the disk's node that is exported with it. */
  readonly bitmap?: string | undefined;
}

export interface Fleece {
  readonly place: ExportPlace;
  exportName(key: string): string;
  /** Before a reader hangs up: see `release`. */
  release(key: string): Promise<void>;
}

/** Whatever happens, `endFleece` puts things right afterwards. */
export async function beginFleece(
  process: QemuProcess,
  disks: readonly FleeceDisk[],
  tools: NodeFiles,
  /** What happens in the same moment. */
  moment: readonly TransactionAction[] = [],
): Promise<Fleece> {
  const socket = `${process.ioFolder}/nbd`;
  const { qmp } = process;
  const actions: TransactionAction[] = [...moment];
  for (const { key, size, scratch } of disks) {
    const top = await presentTop(process, key);
    await tools.createScratch(scratch, size);
    await process.allowFile({ path: scratch, access: "rw", owned: true });
    await qmp.execute("blockdev-add", {
      driver: "qcow2",
      "node-name": node(key),
      discard: "unmap",
      file: { driver: "file", filename: scratch },
      backing: top,
    });
    actions.push({
      type: "blockdev-backup",
      data: { "job-id": job(key), device: top, target: node(key), sync: "none", "auto-dismiss": true },
    });
  }
  // One transaction: all disks of one moment.
  await qmp.execute("transaction", { actions });
  await startServer(process, socket);
  for (const { key, bitmap } of disks) {
    await qmp.execute("block-export-add", {
      type: "nbd",
      id: node(key),
      "node-name": node(key),
      name: key,
      ...(bitmap === undefined ? {} : { bitmaps: [bitmap] }),
    });
  }
  return {
    place: { socket, ownerUid: process.uid },
    exportName: (key) => key,
    release: (key) => release(process, key),
  };
}

/** QEMUs whose server was started by this process, which knows all connections to it. */
const served = new WeakSet<QemuProcess>();

/** One that an agent left behind as it died serves as well: it listens at the same place. */
async function startServer(process: QemuProcess, path: string): Promise<void> {
  try {
    await process.qmp.execute("nbd-server-start", { addr: { type: "unix", data: { path } } });
    served.add(process);
  } catch (err) {
    if (!/already running/.test(messageOf(err))) throw err;
    ignore(err, "it has no exports any more");
  }
}

/**
 * QEMU itself must end the connection. When a reader of a disk with an iothread hangs up, QEMU 7.2 as Debian patches it
 * notices in that thread, asserts that it is the main one, and takes the guest down with it.
 */
async function release(process: QemuProcess, key: string): Promise<void> {
  await process.qmp
    .execute("block-export-del", { id: node(key), mode: "hard" })
    .catch((err: unknown) => ignore(err, "the guest has ended"));
}

/** Leaves QEMU as it was, however far it had come, also when another process of ours had begun it. */
export async function endFleece(
  process: QemuProcess,
  disks: readonly (Pick<FleeceDisk, "key" | "scratch"> & { readonly volid?: string })[],
  tools: NodeFiles,
): Promise<void> {
  const { qmp } = process;
  const attempt = (step: Promise<unknown>): Promise<unknown> =>
    step.catch((err: unknown) => ignore(err, "it was never begun, or the guest has ended and all with it"));
  for (const { key } of disks)
    await attempt(qmp.execute("block-export-del", { id: node(key), mode: "hard" }));
  // QEMU 7.2 stops its server only when every connection is gone, and stands still until then. One that was cut off while
  // it was being made goes only when QEMU runs on: such a server stays, and offers nothing.
  if (served.delete(process)) await attempt(qmp.execute("nbd-server-stop"));
  for (const { key, scratch, volid } of disks) {
    await attempt(
      qmp.execute("block-job-cancel", { device: job(key), force: true }).then(() => jobGone(process, key)),
    );
    await attempt(qmp.execute("blockdev-del", { "node-name": node(key) }));
    await attempt(process.forbidFile(scratch));
    // A volume is freed as one.
    if (volid === undefined) await tools.removeFile(scratch);
  }
}

/** A cancelled job lets go of its nodes a moment later. */
async function jobGone(process: QemuProcess, key: string): Promise<void> {
  for (let tries = 0; tries < 100; tries++) {
    const jobs = (await process.qmp.raw("query-jobs")) as readonly { id: string }[];
    if (!jobs.some((each) => each.id === job(key))) return;
    await process.qmp.clock.sleep(20);
  }
}

function node(key: string): string {
  return `fleece-${key}`;
}

function job(key: string): string {
  return `backup-${key}`;
}
