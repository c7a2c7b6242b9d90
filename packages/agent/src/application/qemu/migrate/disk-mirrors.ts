// Disks of a running guest on their way to another node: QEMU mirrors them over NBD until both sides are the same, and
// lets go when the guest stands still.
import { given } from "@gpve/contracts/given.ts";
import type { OfferedVolume } from "@gpve/domain/guest/move-channel.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import { waitForJob } from "@gpve/domain/vm/qmp/qmp-waits.ts";
import { endJob, removeBlockNode } from "../disk/qemu-copy.ts";
import { presentTop } from "../disk/top-node.ts";
import type { VolumeWork } from "./sent-volumes.ts";

type Disk = Pick<OfferedVolume, "key" | "volid">;

const PREFIX = "move-";
const TELL_EVERY_MS = 1_000;

export class DiskMirrors {
  readonly #process: QemuProcess;
  readonly #socket: string;
  readonly #disks: readonly Disk[];
  readonly #work: VolumeWork;

  constructor(process: QemuProcess, socket: string, disks: readonly Disk[], work: VolumeWork) {
    this.#process = process;
    this.#socket = socket;
    this.#disks = disks;
    this.#work = work;
  }

  /** Resolves when every disk is the same there, and stays so. */
  async begin(): Promise<void> {
    const { qmp } = this.#process;
    const { signal, log, bwlimit } = this.#work;
    const speed = bwlimit === undefined || bwlimit === 0 ? undefined : bwlimit * 1024;
    for (const { key, volid } of this.#disks) {
      log(`mirroring '${volid}' (${key})`);
      await qmp.raw(
        "blockdev-add",
        {
          driver: "nbd",
          "node-name": nodeOf(key),
          export: key,
          server: { type: "unix", path: this.#socket },
          discard: "unmap",
          "detect-zeroes": "unmap",
        },
        { signal },
      );
      await qmp.execute("blockdev-mirror", {
        "job-id": jobOf(key),
        device: await presentTop(this.#process, key),
        target: nodeOf(key),
        sync: "full",
        ...given({ speed }),
        "auto-dismiss": false,
      });
    }
    for (const disk of this.#disks) await this.#untilReady(disk);
  }

  async #untilReady({ key, volid }: Disk): Promise<void> {
    const { log, progress, signal } = this.#work;
    const { clock } = this.#process.qmp;
    let told = 0;
    const { status } = await waitForJob(this.#process.qmp, jobOf(key), ["ready", "concluded"], {
      signal,
      onProgress: (job) => {
        const total = job["total-progress"];
        const done = total === 0 ? 0 : job["current-progress"] / total;
        if (clock.monotonic() - told < TELL_EVERY_MS) return;
        told = clock.monotonic();
        const line = `${key}: ${(done * 100).toFixed(1)} % of ${(total / 1024 ** 2).toFixed(1)} MiB`;
        log(line);
        progress(done, line);
      },
    });
    if (status !== "ready") throw new Error(`the mirror of '${volid}' ended before it was whole`);
  }

  /** The guest stands still: the last blocks go over, and nothing here writes there any more. */
  async finish(): Promise<void> {
    for (const { key } of this.#disks) {
      const id = jobOf(key);
      await this.#process.qmp.raw("block-job-cancel", { device: id, force: false });
      const { error } = await waitForJob(this.#process.qmp, id, ["concluded"]);
      if (error !== undefined) throw new Error(`the mirror of ${key} failed at its end: ${error}`);
      await this.#process.qmp.execute("job-dismiss", { id });
    }
    for (const { key } of this.#disks) await removeBlockNode(this.#process, nodeOf(key));
  }

  async drop(): Promise<void> {
    await dropMirrors(this.#process);
  }
}

/** Whatever of it is there, also of before a crash of ours. */
export async function dropMirrors(process: QemuProcess): Promise<void> {
  const { qmp } = process;
  const jobs = (await qmp.execute("query-jobs")).filter(({ id }) => id.startsWith(PREFIX));
  for (const { id } of jobs) {
    await endJob(process, id);
    await removeBlockNode(process, id);
  }
  const nodes = await qmp.execute("query-named-block-nodes", { flat: true });
  for (const node of nodes) {
    const name = node["node-name"] ?? "";
    if (/^move-[a-z]+\d+-nbd$/.test(name)) await removeBlockNode(process, name);
  }
}

function jobOf(key: string): string {
  return `${PREFIX}${key}-mirror`;
}

function nodeOf(key: string): string {
  return `${PREFIX}${key}-nbd`;
}
