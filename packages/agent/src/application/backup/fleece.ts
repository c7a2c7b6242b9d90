// A running VM's disks as they were at one moment: before the guest overwrites a block, QEMU copies the old one into a
// scratch image; what is read through the export is scratch first, disk otherwise.
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { BackupTools } from "@gpve/domain/backup/backup-ports.ts";

export interface FleeceDisk {
  /** "scsi0" */
  readonly key: string;
  readonly size: number;
}

export interface Fleece {
  readonly socket: string;
  exportName(key: string): string;
  end(): Promise<void>;
}

export async function beginFleece(
  process: GuestProcess,
  disks: readonly FleeceDisk[],
  tools: BackupTools,
  scratchFolder: string,
): Promise<Fleece> {
  const socket = `${process.ioFolder}/nbd`;
  const undo: (() => Promise<unknown>)[] = [];
  const end = async (): Promise<void> => {
    for (const step of undo.toReversed()) {
      await step().catch((err: unknown) =>
        ignore(err, "the guest may have ended, and all of it with the guest"),
      );
    }
    undo.length = 0;
  };
  const { qmp } = process;
  try {
    for (const { key, size } of disks) {
      const path = `${scratchFolder}/fleece-${process.id}-${key}.qcow2`;
      await tools.createScratch(path, size);
      undo.push(() => tools.removeFile(path));
      await process.allowFile({ path, access: "rw", owned: true });
      undo.push(() => process.forbidFile(path));
      await qmp.execute("blockdev-add", {
        driver: "qcow2",
        "node-name": node(key),
        discard: "unmap",
        file: { driver: "file", filename: path },
        backing: `drive-${key}`,
      });
      undo.push(() => qmp.execute("blockdev-del", { "node-name": node(key) }));
    }
    // One transaction: all disks of one moment.
    await qmp.execute("transaction", {
      actions: disks.map(({ key }) => ({
        type: "blockdev-backup",
        data: {
          "job-id": job(key),
          device: `drive-${key}`,
          target: node(key),
          sync: "none",
          "auto-dismiss": true,
        },
      })),
    });
    for (const { key } of disks)
      undo.push(() =>
        qmp
          .execute("block-job-cancel", { device: job(key), force: true })
          .then(() => jobsGone(process, job(key))),
      );
    await qmp.execute("nbd-server-start", { addr: { type: "unix", data: { path: socket } } });
    undo.push(() => qmp.execute("nbd-server-stop"));
    for (const { key } of disks) {
      await qmp.execute("block-export-add", {
        type: "nbd",
        id: node(key),
        "node-name": node(key),
        name: key,
      });
    }
    return { socket, exportName: (key) => key, end };
  } catch (err) {
    await end();
    throw err;
  }
}

/** A cancelled job lets go of its nodes a moment later. */
async function jobsGone(process: GuestProcess, id: string): Promise<void> {
  for (let tries = 0; tries < 100; tries++) {
    const jobs = (await process.qmp.raw("query-jobs")) as readonly { id: string }[];
    if (!jobs.some((each) => each.id === id)) return;
    await process.qmp.clock.sleep(20);
  }
}

function node(key: string): string {
  return `fleece-${key}`;
}

function job(key: string): string {
  return `backup-${key}`;
}
