// How far a backup is, in PVE's lines, and not faster than it may be.
import { bytesText, durationText, speedText } from "@gpve/domain/backup/backup-texts.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { BackupWork } from "../../guest/backup/backup-request.ts";
import { Pace } from "../../guest/backup/pace.ts";

const TELL_EVERY_MS = 3_000;

export class BackupProgress {
  readonly #total: number;
  readonly #clock: Clock;
  readonly #work: BackupWork;
  readonly #pace: Pace;
  readonly #started: number;
  #done = 0;
  #zero = 0;
  #told = { at: 0, percent: -1, done: 0, zero: 0 };

  /** `bwlimit` in KiB/s; 0 = no limit. */
  constructor(total: number, bwlimit: number, clock: Clock, work: BackupWork) {
    this.#total = total;
    this.#clock = clock;
    this.#work = work;
    this.#pace = new Pace(bwlimit, clock, work.signal);
    this.#started = clock.now();
    this.#told.at = this.#started;
  }

  /** Resolves when the next bytes may be read. */
  async add(bytes: number, isZero: boolean): Promise<void> {
    this.#done += bytes;
    if (isZero) this.#zero += bytes;
    this.#work.progress(this.#total === 0 ? 1 : this.#done / this.#total);
    if (this.#clock.now() - this.#told.at >= TELL_EVERY_MS && this.#percent() !== this.#told.percent)
      this.#tell();
    if (!isZero) await this.#pace.after(bytes);
  }

  end(): void {
    this.#tell();
    const { log } = this.#work;
    const zeroPercent = this.#total === 0 ? 0 : Math.floor((this.#zero / this.#total) * 100);
    if (this.#zero > 0)
      log(`INFO: backup is sparse: ${bytesText(this.#zero)} (${zeroPercent}%) total zero data`);
    const seconds = Math.floor((this.#clock.now() - this.#started) / 1000);
    const took = seconds === 0 ? "<1 seconds" : `${seconds} seconds (${speedText(this.#done / seconds)})`;
    if (this.#done > 0) log(`INFO: transferred ${bytesText(this.#done)} in ${took}`);
  }

  #percent(): number {
    return this.#total === 0 ? 100 : Math.floor((this.#done / this.#total) * 100);
  }

  #tell(): void {
    const now = this.#clock.now();
    const seconds = Math.max(1, (now - this.#told.at) / 1000);
    const read = (this.#done - this.#told.done) / seconds;
    const written = (this.#done - this.#zero - (this.#told.done - this.#told.zero)) / seconds;
    const percent = this.#percent();
    this.#work.log(
      `INFO: ${String(percent).padStart(3)}% (${bytesText(this.#done, 1)} of ${bytesText(this.#total, 1)}) in ` +
        `${durationText(now - this.#started)}, read: ${speedText(read)}, write: ${speedText(written)}`,
    );
    this.#told = { at: now, percent, done: this.#done, zero: this.#zero };
  }
}
