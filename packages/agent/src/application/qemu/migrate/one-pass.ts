// Guests under TCG, as they are sent at first. QEMU's log of changed pages is only right where it is read while the guest stands
// still (standstill-at-syncs.ts). One that is told that nothing may be left over does not read it before all was sent: it then
// stops the guest, waits to be told to go on, and reads the log once, for what is left.
//
//   held -> log read -> runs, all of its RAM is sent -> QEMU stops it and waits -> log read -> what has changed, devices
//
// So nobody has to see the end coming, and nothing is sent slowly. How much has changed is not known before it is sent: more
// than a guest may stand still for is cut off, and it runs on where it is. Then it is one for holds and several passes.
// A QEMU that reads its log all the same (8.0 and later do, once more, when nothing is left) is found out by its count of that.
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import type { MigrationInfo } from "@gpve/domain/vm/qmp/qmp-types.ts";
import { isQmpRefusal } from "@gpve/domain/vm/qmp/qmp-errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import { fullBytesOf, lastBytes, NEAR, type Ram, syncsOf } from "./ram-counts.ts";
import { SentInVain } from "./sent-in-vain.ts";

/** While it runs nothing is to be seen but how far it is; QEMU tells when it stops it. */
const LOOK_EVERY_MS = 100;
const SOON_MS = 10;
const AFTER_THE_SWITCH: ReadonlySet<string> = new Set(["device", "completed"]);

export interface OnePassLimits {
  /** How long sending what is left at last may take. */
  readonly lastMs: number;
  /** The guest stands still, and will most likely not go on here. */
  readonly atRest?: (() => void) | undefined;
  /** What carries its memory. */
  readonly line?: LastOfLine | undefined;
}

export interface LastOfLine {
  /** From now on so much may be sent; whoever sends more is hung up on. */
  allow(bytes: number): void;
  readonly isExceeded: boolean;
}

export class OnePass {
  /** QEMU is to go on to the switch-over when nothing at all is left, and does not look for more before. */
  readonly downtimeLimit = 0;
  /** As fast as it may be. */
  readonly maxBandwidth = undefined;
  /** QEMU waits when it has stopped the guest. */
  readonly pauses = true;
  readonly #process: QemuProcess;
  readonly #limits: OnePassLimits;
  #wasRunning = false;
  #isHeld = false;
  #isAtRest = false;
  /** How often the log had been read when the guest was let go. */
  #syncs = 0;
  #fullBytes: number | undefined;

  constructor(process: QemuProcess, limits: OnePassLimits) {
    this.#process = process;
    this.#limits = limits;
  }

  get lookEveryMs(): number {
    return this.#isHeld || this.#isAtRest ? SOON_MS : LOOK_EVERY_MS;
  }

  /** The log is read when RAM begins to be sent. */
  async hold(): Promise<void> {
    const { qmp } = this.#process;
    this.#wasRunning = (await qmp.execute("query-status")).status === "running";
    if (!this.#wasRunning) return;
    await qmp.execute("stop");
    this.#isHeld = true;
  }

  /** Lets the guest go on. Throws when it ran while the log was read. */
  async look({ status, ram }: MigrationInfo): Promise<void> {
    if (!this.#wasRunning || this.#isAtRest) return;
    const syncs = syncsOf(ram);
    if (!this.#isHeld && (syncs > this.#syncs || AFTER_THE_SWITCH.has(status ?? "")))
      throw readMeanwhile(ram);
    if (status === "active" && this.#isHeld && syncs > this.#syncs) return this.#letGo(syncs);
    if (status !== "pre-switchover") return;
    this.#isAtRest = true;
    this.#fullBytes = knownFullBytes(ram);
    this.#limits.atRest?.();
    // No more than one stands still for that is held before the end of a pass, and goes on.
    this.#limits.line?.allow(Math.max(NEAR, lastBytes(ram?.mbps ?? 0, this.#limits.lastMs)));
  }

  /** Why it failed, where that is known better than by QEMU: of a line that was cut it says just that. */
  failure(): SentInVain | undefined {
    if (this.#limits.line?.isExceeded !== true) return undefined;
    return new SentInVain(
      "the guest has changed more of its memory meanwhile than it may stand still for. It runs on here",
      this.#fullBytes,
    );
  }

  async #letGo(syncs: number): Promise<void> {
    this.#syncs = syncs;
    this.#isHeld = false;
    try {
      await this.#process.qmp.execute("cont");
    } catch (err) {
      if (!isQmpRefusal(err)) throw err;
      ignore(err, "all of it was sent already: it stood still from the beginning to the end");
      this.#isHeld = true;
    }
  }
}

function readMeanwhile(ram: Ram | undefined): SentInVain {
  const message =
    "QEMU has read which pages the guest, which it emulates, has changed while it ran: one may have been missed. It runs on here";
  return new SentInVain(message, knownFullBytes(ram));
}

/** Nothing is known where nothing was counted. */
function knownFullBytes(ram: Ram | undefined): number | undefined {
  return (ram === undefined ? 0 : fullBytesOf(ram)) || undefined;
}
