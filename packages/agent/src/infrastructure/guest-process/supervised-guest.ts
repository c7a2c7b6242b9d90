// One running guest as its users see it.
import { kill as sendSignal } from "node:process";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type {
  GuestBounds,
  GuestExit,
  GuestFile,
  GuestLimits,
  GuestProcess,
  GuestTap,
  GuestUsage,
} from "@gpve/domain/guest/guest-processes.ts";
import type { CallOptions, Qmp } from "@gpve/domain/vm/qmp/qmp.ts";
import { qmpRefused } from "@gpve/domain/vm/qmp/qmp-errors.ts";
import { background, ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { bootId } from "@gpve/kit/process-identity.ts";
import type { GuestCgroups } from "../cgroup/guest-cgroups.ts";
import type { QmpClient } from "../qmp/qmp-client.ts";
import { askSupervisor } from "../supervisor/control.ts";
import { causeOf } from "./exit-cause.ts";
import { ExitWatch, isRunning } from "./exit-watch.ts";
import type { EndNote, ExitRecord, GuestCard, GuestFolder, GuestState } from "./guest-folder.ts";
import { realPlace } from "./guest-view.ts";
import { giveBack, lendFile } from "./lent-files.ts";
import { processUsage } from "./process-usage.ts";

export interface SupervisedGuestParts {
  readonly folder: GuestFolder;
  readonly card: GuestCard;
  readonly state: GuestState;
  readonly client: QmpClient | undefined;
  readonly cgroups: GuestCgroups | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

const QUIT_PATIENCE_MS = 5_000;
/** Nobody waits for a guest that is off, but its disks are still written: longer than any healthy end takes. */
const CLOSING_PATIENCE_MS = 30_000;

export class SupervisedGuest implements GuestProcess {
  readonly id: string;
  readonly label: string;
  readonly pid: number;
  readonly startedAt: number;
  readonly uid: number | undefined;
  readonly note: unknown;
  readonly exited: Promise<GuestExit>;
  readonly #parts: SupervisedGuestParts;
  readonly #watch: ExitWatch;
  #hasExited = false;
  #switchedOff = false;
  readonly #holds = new Set<symbol>();

  constructor(parts: SupervisedGuestParts) {
    this.#parts = parts;
    this.id = parts.card.id;
    this.label = parts.card.label;
    this.pid = parts.state.pid;
    this.startedAt = parts.card.startedAt;
    this.uid = parts.card.uid;
    this.note = parts.card.note;
    this.#watch = new ExitWatch(parts.folder, parts.state, parts.clock);
    this.exited = this.#watch.ended.then((record) => this.#end(record));
    const { client } = parts;
    if (client === undefined) return;
    void client.ended.then(() => this.#watch.look());
    client.events.listen({
      onEvent: (event) => {
        if (event.name === "SHUTDOWN") this.#noteShutdown(event.data);
        if (event.name === "WATCHDOG") this.#noteWatchdog(event.data);
      },
      onReset: () => void this.finishShutdown(),
    });
  }

  get hasExited(): boolean {
    return this.#hasExited;
  }

  get qmp(): Qmp {
    const { client } = this.#parts;
    if (client === undefined) throw new AppError("internal.error", `${this.label} has no monitor`);
    return client;
  }

  get ioFolder(): string {
    return this.#parts.folder.io;
  }

  socketPath(name: string): string {
    return this.#parts.folder.socket(name);
  }

  async allowFile(file: GuestFile): Promise<void> {
    const { card, folder } = this.#parts;
    if (!card.confined) return;
    const { uid, inGroup = false } = card;
    const takeBack = uid === undefined ? undefined : await lendFile(folder, file, uid, inGroup);
    await this.#ask(["bind", realPlace(file), file.path, file.access]).catch(async (err: unknown) => {
      await takeBack?.();
      throw err;
    });
  }

  async forbidFile(path: string): Promise<void> {
    const { card, folder } = this.#parts;
    if (!card.confined) return;
    await this.#ask(["unbind", path]);
    await giveBack(folder, card.uid, path);
  }

  async plugTap(netdevId: string, tap: GuestTap & { readonly vhost: boolean }): Promise<void> {
    const { queues = 1, mtu = 0, vhost } = tap;
    const names = (kind: string): string =>
      Array.from({ length: queues }, (_, index) => `${tap.name}${kind}-${index}`).join(":");
    const many = queues > 1 ? "s" : "";
    const command = {
      execute: "netdev_add",
      arguments: {
        type: "tap",
        id: netdevId,
        [`fd${many}`]: names(""),
        vhost,
        ...(vhost ? { [`vhostfd${many}`]: names("-vhost") } : {}),
      },
    };
    const answer = await this.#ask([
      "tap",
      tap.name,
      tap.bridge,
      String(mtu),
      String(queues),
      vhost ? "1" : "0",
      this.#parts.folder.socket("qmp-fd"),
      JSON.stringify(command),
    ]);
    const { error } = JSON.parse(answer) as { error?: { class: string; desc: string } };
    if (error !== undefined) throw qmpRefused(this.label, "netdev_add", error.class, error.desc);
  }

  usage(): GuestUsage {
    return this.#parts.cgroups?.usage(this.id) ?? processUsage(this.pid);
  }

  pressure(): Readonly<Record<string, number>> {
    return this.#parts.cgroups?.pressure(this.id) ?? {};
  }

  setLimits(limits: GuestLimits): void {
    if (this.#parts.cgroups === undefined)
      throw new AppError("feature.unsupported", "without root a guest's share of the host cannot be set");
    this.#parts.cgroups.apply(this.id, limits);
  }

  raiseBounds(bounds: GuestBounds): void {
    for (const missing of this.#parts.cgroups?.bound(this.id, bounds) ?? [])
      this.#parts.log.warn({ resource: this.label }, missing);
  }

  async stop(options: CallOptions = {}): Promise<GuestExit> {
    const { clock, client } = this.#parts;
    const patience = options.timeoutMs ?? QUIT_PATIENCE_MS;
    this.#note({ by: "us" });
    if (client !== undefined) {
      await client.execute("quit", undefined, { ...options, timeoutMs: patience }).catch((err: unknown) => {
        ignore(err, "it may end before it answers, or not answer at all: signals follow");
      });
    } else await this.#signal(15);
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
    this.#note({ by: "us" });
    await this.#signal(9);
    return await this.exited;
  }

  holdOpen(): () => void {
    const hold = Symbol(this.label);
    this.#holds.add(hold);
    return () => {
      if (this.#holds.delete(hold) && this.#switchedOff) this.#quit();
    };
  }

  /** With -no-shutdown QEMU stays after the guest has switched itself off, also while nobody looks. */
  async finishShutdown(): Promise<void> {
    const { client } = this.#parts;
    if (client === undefined) return;
    try {
      const { status } = await client.execute("query-status");
      if (status === "shutdown") this.#noteShutdown({ guest: true, reason: "guest-shutdown" });
    } catch (err) {
      ignore(err, "gone meanwhile: the exit record tells");
    }
  }

  /** Stops looking; the guest runs on. */
  release(): void {
    this.#watch.close();
    this.#parts.client?.close();
  }

  #noteShutdown(data: Readonly<Record<string, unknown>>): void {
    if (data["guest"] !== true || this.#hasExited) return;
    const reason = typeof data["reason"] === "string" ? data["reason"] : "guest-shutdown";
    this.#note({ by: "guest", reason });
    this.#switchedOff = true;
    this.#quit();
  }

  /** QEMU has already done what the configuration says; a power-off ends it without a word. */
  #noteWatchdog({ action }: Readonly<Record<string, unknown>>): void {
    const { log } = this.#parts;
    log.warn({ resource: `qemu/${this.id}`, action }, `the watchdog of ${this.label} was not fed in time`);
    if (action === "poweroff") this.#note({ by: "guest", reason: "watchdog" });
  }

  #quit(): void {
    if (this.#holds.size > 0) return;
    const { client, clock, log } = this.#parts;
    client?.execute("quit").catch((err: unknown) => {
      ignore(err, "without -no-shutdown it ends by itself");
    });
    // QEMU may wait for ever for its last write; what the guest wanted kept is on its disks.
    clock.after(CLOSING_PATIENCE_MS, () => {
      if (this.#hasExited) return;
      log.warn({ resource: `qemu/${this.id}` }, `${this.label} is off, but QEMU does not end: it is killed`);
      background(log, "killing a QEMU that does not end", this.#signal(9));
    });
  }

  /** Who ends it, for whoever finds it ended. A full disk keeps nobody from ending: it is told less exactly then. */
  #note(note: EndNote): void {
    const { folder, log } = this.#parts;
    if (this.#hasExited || folder.readEndNote() !== undefined) return;
    try {
      folder.writeEndNote(note);
    } catch (err) {
      const resource = `qemu/${this.id}`;
      log.warn({ resource, err: messageOf(err) }, `who ends ${this.label} cannot be written down`);
    }
  }

  async #signal(number: number): Promise<void> {
    try {
      await this.#ask(["kill", String(number)]);
    } catch (err) {
      ignore(err, "without its supervisor the process is named by number and start time");
      if (isRunning(this.#parts.state)) sendSignal(this.pid, number);
    }
    this.#watch.look();
  }

  async #ask(words: readonly string[]): Promise<string> {
    const { folder, clock } = this.#parts;
    return await askSupervisor(folder.socket("control"), words, { clock });
  }

  async #end(record: ExitRecord | undefined): Promise<GuestExit> {
    const { folder, card, clock, cgroups } = this.#parts;
    this.#hasExited = true;
    const exit = exitOf(folder, card, record, clock, cgroups);
    this.#parts.client?.close();
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
  card: GuestCard,
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
    cause: causeOf({ ...ended, sameBoot, lastWords, ...(note === undefined ? {} : { note }) }),
    ...(record === undefined || record.exitCode < 0 ? {} : { exitCode: record.exitCode }),
    ...(record === undefined || record.signal === 0 ? {} : { signal: record.signal }),
    ...(note?.reason === undefined ? {} : { reason: note.reason }),
    at: record?.at ?? clock.now(),
    outOfMemory,
    lastWords,
  };
}
