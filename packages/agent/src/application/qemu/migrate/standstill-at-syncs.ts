// Guests under TCG: a processor that is between looking a page up and writing to it, when QEMU reads its log of changed
// pages, changes a page that nobody sends again. So such a guest stands still whenever the log is read: at the beginning,
// and from shortly before the end of each pass over the RAM. Under KVM the hardware keeps the log.
//
// The nearer the end of a pass, the slower it is sent, so that a look that comes late is still in time: how much slower goes
// by how late looks come. Pages of zeroes go in no time and cannot be slowed down: a guest whose last pages are empty is at
// the end of the pass before anybody can look. Should the log have been read while the guest ran, what was sent is not
// trusted: the guest runs on where it is. How much of it was not empty is known by then, so that the next try sees the end
// coming.
import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";
import type { MigrationInfo } from "@gpve/domain/vm/qmp/qmp-types.ts";
import { fullBytesOf, lastBytes, NEAR, type Ram, syncsOf } from "./ram-counts.ts";
import { SentInVain } from "./sent-in-vain.ts";

const MIB = 1024 ** 2;
/** Quick enough for anybody, and slow enough to see the end of a pass coming. */
const VISIBLE = 100 * MIB;
const SLOWEST = 4 * MIB;
/** What is left lasts for so many of the longest times between two looks at least, and for so long. */
const LOOKS_LEFT = 5;
const LEAST_LEFT_MS = 400;
const MOST_LEFT_MS = 3_000;
/** How quickly it is forgotten, look by look, how much went between two of them. */
const FORGET = 0.8;
/** A limit that hardly differs is not said again. */
const SAME = 0.1;
/** All of a guest that is over before anybody could look twice, where it is empty: it stands still for the first pass. */
const SMALL = 96 * MIB;
/** While the guest stands still nothing is held back: QEMU's limit would wait for the end of its tenth of a second. */
const UNLIMITED = 2 ** 40;
/** From these on QEMU has read the log for the last time, or is about to. */
const AT_THE_END: ReadonlySet<string> = new Set(["pre-switchover", "device", "completed"]);

export interface StandstillLimits {
  /** How long sending what is left at last may take. */
  readonly lastMs: number;
  readonly bytesPerSecond?: number | undefined;
  /** How many times slower than usual, for one that was not held in time before. */
  readonly patience: number;
  /** How much of its memory was not empty when it was sent before. */
  readonly fullBytes?: number | undefined;
  /** The guest is held, and may well not go on here. */
  readonly atRest?: (() => void) | undefined;
}

interface Seen {
  readonly syncs: number;
  readonly remaining: number;
}

export class StandstillAtSyncs {
  /** A pass goes to its end before the log is read again. */
  readonly downtimeLimit = 1;
  readonly maxBandwidth: number;
  readonly #process: QemuProcess;
  readonly #wasRunning: boolean;
  readonly #lastMs: number;
  readonly #patience: number;
  readonly #fullBytes: number | undefined;
  readonly #atRest: () => void;
  #isHeld = true;
  #holds = 0;
  #bandwidth: number;
  #syncs = 0;
  #remaining = 0;
  /** How much went between two looks, of late: pages of zeroes take no bandwidth. */
  #stride = 0;
  #lookedAt: number | undefined;
  /** The longest time between two looks. */
  #lateMs = 0;

  private constructor(process: QemuProcess, wasRunning: boolean, limits: StandstillLimits) {
    this.#process = process;
    this.#wasRunning = wasRunning;
    this.#lastMs = limits.lastMs;
    this.#patience = limits.patience;
    this.#fullBytes = limits.fullBytes;
    this.#atRest = limits.atRest ?? (() => undefined);
    this.maxBandwidth = Math.min(VISIBLE, limits.bytesPerSecond ?? VISIBLE);
    this.#bandwidth = this.maxBandwidth;
  }

  static async begin(process: QemuProcess, limits: StandstillLimits): Promise<StandstillAtSyncs> {
    const { status } = await process.qmp.execute("query-status");
    const wasRunning = status === "running";
    if (wasRunning) await process.qmp.execute("stop");
    return new StandstillAtSyncs(process, wasRunning, limits);
  }

  /** Holds the guest, or lets it go on. Throws when it ran where it should have stood still. `now`: milliseconds. */
  async look(info: MigrationInfo, now: number): Promise<void> {
    const { status, ram } = info;
    if (!this.#wasRunning) return;
    this.#lateMs = Math.max(this.#lateMs, now - (this.#lookedAt ?? now));
    this.#lookedAt = now;
    if (AT_THE_END.has(status ?? "") && !this.#isHeld) throw this.#notTrusted(ram);
    if (status !== "active" || ram === undefined) return;
    const seen = { syncs: syncsOf(ram), remaining: this.#left(ram) };
    if (!this.#isHeld) return this.#whileItRuns(seen, ram);
    if (seen.syncs <= this.#syncs) return;
    const isFirstPass = this.#syncs === 0;
    this.#syncs = seen.syncs;
    if (isFirstPass && ram.remaining <= SMALL) return this.#limit(UNLIMITED);
    if (ram.remaining > lastBytes(ram.mbps, this.#lastMs)) await this.#letGo(this.#left(ram));
    else this.#atRest();
  }

  /** Of what takes time. */
  #left(ram: Ram): number {
    if (this.#fullBytes === undefined || syncsOf(ram) > 1) return ram.remaining;
    return Math.min(ram.remaining, Math.max(0, this.#fullBytes - fullBytesOf(ram)));
  }

  async #whileItRuns({ syncs, remaining }: Seen, ram: Ram): Promise<void> {
    if (syncs > this.#syncs) throw this.#notTrusted(ram);
    this.#stride = Math.max(this.#remaining - remaining, this.#stride * FORGET);
    this.#remaining = remaining;
    if (remaining >= Math.max(NEAR, this.#stride)) return this.#pace(remaining);
    await this.#process.qmp.execute("stop");
    const info = await this.#process.qmp.execute("query-migrate");
    // Between the last look and now.
    if (syncsOf(info.ram) > this.#syncs || AT_THE_END.has(info.status ?? ""))
      throw this.#notTrusted(info.ram);
    this.#isHeld = true;
    // Mostly one pass is enough; of a guest that is too busy for that, each further hold may be one more of many.
    if (++this.#holds === 1) this.#atRest();
    await this.#limit(UNLIMITED);
  }

  /** Nothing was held back until now: what is left by the time that it is may be too little to let the guest go on. */
  async #letGo(remaining: number): Promise<void> {
    await this.#pace(remaining);
    const { status, ram } = await this.#process.qmp.execute("query-migrate");
    const left = status === "active" && ram !== undefined ? this.#left(ram) : 0;
    if (left < NEAR) return this.#limit(UNLIMITED);
    this.#syncs = syncsOf(ram);
    this.#remaining = left;
    this.#stride = 0;
    this.#isHeld = false;
    await this.#process.qmp.execute("cont");
  }

  async #pace(remaining: number): Promise<void> {
    const leftMs = Math.min(Math.max(this.#lateMs * LOOKS_LEFT, LEAST_LEFT_MS), MOST_LEFT_MS);
    const seconds = (leftMs * this.#patience) / 1000;
    const slow = Math.max(SLOWEST, (remaining - NEAR) / seconds);
    const wanted = Math.floor(Math.min(slow, this.maxBandwidth));
    if (Math.abs(wanted - this.#bandwidth) > this.#bandwidth * SAME) await this.#limit(wanted);
  }

  async #limit(bandwidth: number): Promise<void> {
    this.#bandwidth = bandwidth;
    await this.#process.qmp.execute("migrate-set-parameters", { "max-bandwidth": bandwidth });
  }

  #notTrusted(ram: Ram | undefined): SentInVain {
    // Later passes send again what was sent before. Nothing is known where nothing was counted.
    const isFirstPass = this.#syncs === 1 && ram !== undefined;
    return new SentInVain(
      `this node was too busy (up to ${Math.round(this.#lateMs)} ms between two looks) to hold the guest, which it emulates, while changes of its memory were read: one may have been missed. It runs on here; try again when the node is less busy, or stop it first`,
      isFirstPass ? fullBytesOf(ram) || undefined : this.#fullBytes,
    );
  }
}
