// Saving the RAM of a running guest and continuing from it.
//
//   save:  migrate -> pre-switchover (guest stands still, disks are ours) -> migrate-continue -> completed -> cont
//   load:  -incoming defer -> migrate-incoming -> the file is sent -> completed -> cont
import { AppError } from "@gpve/contracts/errors.ts";
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import type { RamReceiver, RamStreams } from "@gpve/domain/vm/snapshot/ram-streams.ts";
import type { Qmp } from "@gpve/domain/vm/qmp/qmp.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";

export interface RamStatePorts {
  readonly ram: RamStreams;
  readonly clock: Clock;
}

/** Then the guest runs on with it: it can be stopped, and cannot be moved or saved before that. */
const CANCEL_MS = 30_000;
const POLL_MS = 50;
/** A guest that changes its memory faster than it can be written is held still after this time. */
const LIVE_MS = 60_000;
const MAX_BANDWIDTH = 2 ** 40;

const ENDED = new Set(["completed", "failed", "cancelled"]);

export class RamSave {
  readonly #host: RamStatePorts;
  readonly #process: QemuProcess;
  readonly #receiver: RamReceiver;
  readonly #signal: AbortSignal;
  /** Why the file does not take it: QEMU knows only that somebody hung up. */
  #unwritten: unknown;

  private constructor(host: RamStatePorts, process: QemuProcess, receiver: RamReceiver, signal: AbortSignal) {
    this.#host = host;
    this.#process = process;
    this.#receiver = receiver;
    this.#signal = signal;
    receiver.written.catch((err: unknown) => (this.#unwritten = err));
  }

  /** Resolves when nearly all is written and the guest stands still, its disks still usable. */
  static async begin(
    host: RamStatePorts,
    process: QemuProcess,
    file: string,
    signal: AbortSignal,
  ): Promise<RamSave> {
    const save = new RamSave(host, process, await host.ram.receive(process, file), signal);
    try {
      await save.#begin();
      return save;
    } catch (err) {
      await save.cancel();
      throw save.#unwritten ?? err;
    }
  }

  async #begin(): Promise<void> {
    const { qmp } = this.#process;
    await setPause(qmp, true);
    // One that came here encrypted is written as it is.
    const plain = { "tls-creds": "", "tls-hostname": "" };
    await qmp.execute("migrate-set-parameters", { "max-bandwidth": MAX_BANDWIDTH, ...plain });
    // Emulated processors write past QEMU's log of changed pages now and then, and the RAM would not be of one moment.
    if (isEmulated(this.#process)) await qmp.execute("stop", undefined, { signal: this.#signal });
    await qmp.execute("migrate", { uri: this.#receiver.uri }, { signal: this.#signal });
    await waitForMigration(this.#host, qmp, "pre-switchover", this.#signal, LIVE_MS);
  }

  async finish(): Promise<void> {
    const { qmp } = this.#process;
    await qmp.execute("migrate-continue", { state: "pre-switchover" });
    await waitForMigration(this.#host, qmp, "completed", this.#signal).catch((err: unknown) => {
      throw this.#unwritten ?? err;
    });
    await this.#receiver.written;
    await this.#receiver.close();
  }

  /** Nothing is kept; the guest can be continued. */
  async cancel(): Promise<void> {
    await cancelMigration(this.#host, this.#process);
    await this.#receiver.close();
  }
}

/** Ends a migration that a crash of ours left behind. */
export async function cancelMigration(host: RamStatePorts, process: QemuProcess): Promise<void> {
  const { qmp } = process;
  if (process.hasExited) return;
  const until = host.clock.monotonic() + CANCEL_MS;
  try {
    // One whose other end is gone was seen to stay "cancelling" for ever: whoever waited for it would keep the guest's next work waiting.
    while (host.clock.monotonic() < until) {
      const { status } = await qmp.execute("query-migrate");
      if (status === undefined || status === "none" || ENDED.has(status)) return;
      if (status !== "cancelling") await qmp.execute("migrate_cancel");
      await host.clock.sleep(POLL_MS);
    }
  } catch (err) {
    ignore(err, "a QEMU that is gone migrates no more");
  }
}

/** Feeds a file to a QEMU started with `-incoming defer`. With `-S` the guest then waits for `cont`. */
export async function loadRam(
  host: RamStatePorts,
  process: QemuProcess,
  file: string,
  signal: AbortSignal,
): Promise<void> {
  const socket = `${process.ioFolder}/ram`;
  const { qmp } = process;
  await qmp.execute("migrate-incoming", { uri: `unix:${socket}` }, { signal });
  await host.ram.send(process, socket, file, signal);
  await waitForMigration(host, qmp, "completed", signal);
}

/** A guest whose RAM was loaded runs on. */
export async function continueFromRam({ qmp }: QemuProcess, signal: AbortSignal): Promise<void> {
  const { status } = await qmp.execute("query-status");
  if (status !== "running") await qmp.execute("cont", undefined, { signal });
}

/** Emulated processors write past QEMU's log of changed pages, where it is read while they run. */
export function isEmulated({ note }: QemuProcess): boolean {
  return (note as { accelerator?: string } | undefined)?.accelerator === "tcg";
}

async function setPause(qmp: Qmp, state: boolean): Promise<void> {
  await qmp.execute("migrate-set-capabilities", {
    capabilities: [
      { capability: "pause-before-switchover", state },
      // A guest that came here by several connections is written by one.
      { capability: "multifd", state: false },
    ],
  });
}

async function waitForMigration(
  host: RamStatePorts,
  qmp: Qmp,
  wanted: "pre-switchover" | "completed",
  signal: AbortSignal,
  liveMs = Number.POSITIVE_INFINITY,
): Promise<void> {
  const deadline = host.clock.monotonic() + liveMs;
  let stopped = false;
  for (;;) {
    const info = await qmp.execute("query-migrate", undefined, { signal });
    const status: string | undefined = info.status;
    if (status === wanted) return;
    if (status === "failed" || status === "cancelled") {
      const why = (info as { "error-desc"?: string })["error-desc"];
      throw new AppError("qmp.failed", `moving the RAM failed${why === undefined ? "" : `: ${why}`}`, {
        pveStatus: 500,
      });
    }
    if (!stopped && host.clock.monotonic() >= deadline) {
      stopped = true;
      await qmp.execute("stop", undefined, { signal });
    }
    await host.clock.sleep(POLL_MS, signal);
  }
}
