// One running process as its users see it.
import { kill as sendSignal } from "node:process";
import { given } from "@gpve/contracts/given.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type {
  CallOptions,
  GuestBounds,
  GuestExit,
  GuestFile,
  GuestLimits,
  GuestProcess,
  GuestUsage,
} from "@gpve/domain/guest/guest-processes.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { bootId } from "@gpve/kit/process-identity.ts";
import type { GuestCgroups } from "../cgroup/guest-cgroups.ts";
import { askSupervisor } from "../supervisor/control.ts";
import { causeOf } from "./exit-cause.ts";
import { ExitWatch, isRunning } from "./exit-watch.ts";
import type { EndNote, ExitRecord, ProcessCard, GuestFolder, GuestState } from "./guest-folder.ts";
import { realPlace } from "./guest-view.ts";
import { giveBack, lendFile } from "./lent-files.ts";
import { processUsage } from "./process-usage.ts";

export interface SupervisedGuestParts {
  readonly folder: GuestFolder;
  readonly card: ProcessCard;
  readonly state: GuestState;
  readonly cgroups: GuestCgroups | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

const [SIGSTOP, SIGCONT] = [19, 18];
const QUIT_PATIENCE_MS = 5_000;

export class SupervisedGuest implements GuestProcess {
  readonly id: string;
  readonly label: string;
  readonly pid: number;
  readonly startedAt: number;
  readonly uid: number | undefined;
  readonly note: unknown;
  readonly exited: Promise<GuestExit>;
  protected readonly parts: SupervisedGuestParts;
  readonly #watch: ExitWatch;
  #hasExited = false;

  constructor(parts: SupervisedGuestParts) {
    this.parts = parts;
    this.id = parts.card.id;
    this.label = parts.card.label;
    this.pid = parts.state.pid;
    this.startedAt = parts.card.startedAt;
    this.uid = parts.card.uid;
    this.note = parts.card.note;
    this.#watch = new ExitWatch(parts.folder, parts.state, parts.clock);
    this.exited = this.#watch.ended.then((record) => this.#end(record));
  }

  get hasExited(): boolean {
    return this.#hasExited;
  }

  get ioFolder(): string {
    return this.parts.folder.io;
  }

  socketPath(name: string): string {
    return this.parts.folder.socket(name);
  }

  async allowFile(file: GuestFile): Promise<void> {
    const { card, folder } = this.parts;
    if (!card.confined) return;
    const { uid, inGroup = false } = card;
    const takeBack = uid === undefined ? undefined : await lendFile(folder, file, uid, inGroup);
    await this.ask(["bind", realPlace(file), file.path, file.access]).catch(async (err: unknown) => {
      await takeBack?.();
      throw err;
    });
  }

  async forbidFile(path: string): Promise<void> {
    const { card, folder } = this.parts;
    if (!card.confined) return;
    await this.ask(["unbind", path]);
    await giveBack(folder, card.uid, path);
  }

  usage(): GuestUsage {
    return this.parts.cgroups?.usage(this.id) ?? processUsage(this.pid);
  }

  pressure(): Readonly<Record<string, number>> {
    return this.parts.cgroups?.pressure(this.id) ?? {};
  }

  setLimits(limits: GuestLimits): void {
    if (this.parts.cgroups === undefined)
      throw new AppError("feature.unsupported", "without root a guest's share of the host cannot be set");
    this.parts.cgroups.apply(this.id, limits);
  }

  raiseBounds(bounds: GuestBounds): void {
    for (const missing of this.parts.cgroups?.bound(this.id, bounds) ?? [])
      this.parts.log.warn({ resource: this.label }, missing);
  }

  /** It stands still until `proceed`. */
  async pause(): Promise<void> {
    await this.signal(SIGSTOP);
  }

  async proceed(): Promise<void> {
    await this.signal(SIGCONT);
  }

  /** Has the kernel page out what it can of it; answers with the bytes that went, undefined where it cannot be asked. */
  async pageOut(): Promise<number | undefined> {
    return await this.parts.cgroups?.reclaim(this.id);
  }

  get isGuarded(): boolean {
    return this.parts.folder.isGuarded();
  }

  /** From now on it ends when the deadline in that file passes. */
  async guard(file: string): Promise<void> {
    this.parts.folder.markGuarded(true);
    await this.ask(["guard", file]);
  }

  async unguard(): Promise<void> {
    await this.ask(["unguard"]);
    this.parts.folder.markGuarded(false);
  }

  async stop(options: CallOptions = {}): Promise<GuestExit> {
    const { clock } = this.parts;
    const patience = options.timeoutMs ?? QUIT_PATIENCE_MS;
    this.noteEnd({ by: "us" });
    await this.askToEnd({ ...options, timeoutMs: patience });
    const ended = await Promise.race([
      this.exited,
      clock.sleep(patience, options.signal).then(
        () => undefined,
        () => undefined,
      ),
    ]);
    return ended ?? (await this.kill());
  }

  async kill(): Promise<GuestExit> {
    this.noteEnd({ by: "us" });
    await this.signal(9);
    return await this.exited;
  }

  /** Stops looking; the guest runs on. */
  release(): void {
    this.#watch.close();
  }

  /** Signals follow where that does not help. */
  protected askToEnd(_options: CallOptions): Promise<void> {
    return this.signal(15);
  }

  /** Anyone who has reason to think that it has ended may call it. */
  protected look(): void {
    this.#watch.look();
  }

  /** Who ends it, for whoever finds it ended. A full disk keeps nobody from ending: it is told less exactly then. */
  protected noteEnd(note: EndNote): void {
    const { folder, log } = this.parts;
    if (this.#hasExited || folder.readEndNote() !== undefined) return;
    try {
      folder.writeEndNote(note);
    } catch (err) {
      log.warn(
        { resource: this.label, err: messageOf(err) },
        `who ends ${this.label} cannot be written down`,
      );
    }
  }

  protected async signal(number: number): Promise<void> {
    try {
      await this.ask(["kill", String(number)]);
    } catch (err) {
      ignore(err, "without its supervisor the process is named by number and start time");
      if (isRunning(this.parts.state)) sendSignal(this.pid, number);
    }
    this.#watch.look();
  }

  protected async ask(words: readonly string[]): Promise<string> {
    const { folder, clock } = this.parts;
    return await askSupervisor(folder.socket("control"), words, { clock });
  }

  async #end(record: ExitRecord | undefined): Promise<GuestExit> {
    const { folder, card, clock, cgroups } = this.parts;
    this.#hasExited = true;
    const exit = exitOf(folder, card, record, clock, cgroups);
    this.release();
    try {
      cgroups?.killAll(this.id);
      await cgroups?.remove(this.id);
    } catch (err) {
      ignore(err, "an empty cgroup does no harm; `forget` tries again");
    }
    return exit;
  }
}

export function exitOf(
  folder: GuestFolder,
  card: ProcessCard,
  record: ExitRecord | undefined,
  clock: Clock,
  cgroups: GuestCgroups | undefined,
): GuestExit {
  const note = folder.readEndNote();
  const lastWords = folder.lastWords();
  const sameBoot = card.bootId === bootId();
  const ended = record === undefined ? {} : { exitCode: record.exitCode, signal: record.signal };
  const outOfMemory = record?.signal === 9 && (cgroups?.oomKills(card.id) ?? 0) > 0;
  return {
    cause: causeOf({ ...ended, sameBoot, lastWords, ...given({ note }) }),
    ...(record === undefined || record.exitCode < 0 ? {} : { exitCode: record.exitCode }),
    ...(record === undefined || record.signal === 0 ? {} : { signal: record.signal }),
    ...given({ reason: note?.reason }),
    at: record?.at ?? clock.now(),
    outOfMemory,
    lastWords,
  };
}
