// Starting processes under supervisors of their own, and finding them again after a restart of ours.
//
//   start:  folder, files, cgroup -> guest.json -> spec -> supervisor -> "started" -> spoken to -> running
//   adopt:  guest.json + state + exit say who it is and how it ended
import { conflict } from "@gpve/domain/request/failures.ts";
import { rmSync, writeFileSync } from "node:fs";
import { copyFile, writeFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type {
  Adoption,
  CallOptions,
  Confinement,
  EndedGuest,
  GuestPlace,
  GuestProcess,
  GuestProcesses,
  GuestStart,
} from "@gpve/domain/guest/guest-processes.ts";
import { ignore } from "@gpve/kit/background.ts";
import { type Clock, systemClock } from "@gpve/kit/clock.ts";
import { withHeldFile } from "@gpve/kit/held-file.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { bootId } from "@gpve/kit/process-identity.ts";
import { childSpan } from "@gpve/kit/telemetry/span.ts";
import { spawnReporting } from "@gpve/kit/spawn.ts";
import { GuestCgroups } from "../cgroup/guest-cgroups.ts";
import { renderSpec } from "../supervisor/spec-file.ts";
import { isRunning, recordOf } from "./exit-watch.ts";
import { type ProcessCard, GuestFolder, type GuestState, type KindCard } from "./guest-folder.ts";
import { GuestUids } from "./guest-uid.ts";
import { prepareFile } from "./guest-view.ts";
import { giveBack, lendFile } from "./lent-files.ts";
import { confinementOf } from "./confinement.ts";
import { exitOf, SupervisedGuest, type SupervisedGuestParts } from "./supervised-guest.ts";
import { startFailure } from "./start-failure.ts";
import { specOf, type SpecStart } from "./start-spec.ts";
import { supervises } from "./supervises.ts";

export interface SupervisedGuestsOptions {
  /** Shown in the process list; DIR/run/guests is below it. */
  readonly dataFolder: string;
  readonly instanceId: string;
  /** What uids of guests are made from; that of the cluster, where nodes share files of guests. Default: the instance. */
  readonly uidSeed?: string;
  /** The supervisor's binary. */
  readonly supervisor: string;
  readonly log: Logger;
  readonly clock?: Clock;
  /**
   * The deadline a guest is to have; undefined = none. Throws where it must have one and none can be had, as on a node
   * without the lease: then it does not start.
   */
  readonly guardOf?: (id: string) => string | undefined;
  /** Default: what we are. */
  readonly isRoot?: boolean;
  /** Without root: whether this kernel lets us make user namespaces. */
  readonly userNamespaces?: boolean;
}

export interface ConnectOptions extends CallOptions {
  readonly timeoutMs: number;
}

export const ADOPT_TIMEOUT_MS = 10_000;
const START_TIMEOUT_MS = 30_000;
const ADOPT_AT_ONCE = 32;

export class SupervisedGuests implements GuestProcesses {
  readonly confinement: Confinement;
  protected readonly options: SupervisedGuestsOptions;
  protected readonly clock: Clock;
  readonly #guestsFolder: string;
  readonly #cgroups: GuestCgroups | undefined;
  readonly #running = new Map<string, SupervisedGuest>();
  readonly #starting = new Set<string>();
  /** What ended guests said last, until they are started again. */
  readonly #said = new Map<string, string>();
  /** Ends of removals under way; a start waits for them. */
  readonly #forgetting = new Map<string, Promise<void>>();
  readonly #uids: GuestUids;
  readonly #exitListeners = new Set<(ended: EndedGuest) => void>();

  constructor(options: SupervisedGuestsOptions) {
    this.options = options;
    this.clock = options.clock ?? systemClock;
    this.#uids = new GuestUids(options.uidSeed ?? options.instanceId);
    this.#guestsFolder = resolve(options.dataFolder, "run", "guests");
    const isRoot = options.isRoot ?? process.getuid?.() === 0;
    this.confinement = confinementOf(isRoot, options.userNamespaces ?? false);
    this.#cgroups = isRoot ? new GuestCgroups(options.instanceId, undefined, this.clock) : undefined;
    if (!isRoot) options.log.warn({ confinement: this.confinement.level }, this.confinement.detail);
  }

  placeOf(id: string): GuestPlace {
    const folder = new GuestFolder(this.#guestsFolder, id);
    return { socketPath: (name) => folder.socket(name), ioFolder: folder.io };
  }

  uidOf(id: string): number | undefined {
    if (this.#cgroups === undefined) return undefined;
    return this.#uids.get(id) ?? this.#uids.take(id, false);
  }

  get(id: string): SupervisedGuest | undefined {
    return this.#running.get(id);
  }

  list(): readonly GuestProcess[] {
    return [...this.#running.values()];
  }

  onExit(listener: (ended: EndedGuest) => void): () => void {
    this.#exitListeners.add(listener);
    return () => this.#exitListeners.delete(listener);
  }

  start(start: GuestStart, options: CallOptions = {}): Promise<GuestProcess> {
    return this.startAs(start, {}, options);
  }

  /** `kind`: what its card says beside, for whoever adopts it. */
  protected async startAs(start: SpecStart, kind: KindCard, options: CallOptions): Promise<SupervisedGuest> {
    const { id, label } = start;
    const folder = new GuestFolder(this.#guestsFolder, id);
    if (this.#running.has(id) || this.#starting.has(id)) throw conflict(`${label} already running`);
    this.#starting.add(id);
    try {
      await this.#forgetting.get(id);
      const before = folder.readState();
      if (before !== undefined && folder.readCard()?.bootId === bootId() && isRunning(before))
        throw conflict(`${label} already running`);
    } catch (err) {
      this.#starting.delete(id);
      throw err;
    }
    try {
      await this.#remove(id);
      return this.#register(await this.#start(start, kind, folder, options));
    } catch (err) {
      this.#cgroups?.killAll(id);
      await this.#remove(id);
      if (err instanceof AppError) throw err;
      throw new AppError("guest.start_failed", `start of ${label} failed: ${messageOf(err)}`, {
        cause: err,
        pveStatus: 500,
      });
    } finally {
      this.#starting.delete(id);
    }
  }

  async adopt(): Promise<Adoption> {
    const running: GuestProcess[] = [];
    const ended: EndedGuest[] = [];
    const unreachable: { id: string; label: string; error: Error }[] = [];
    const waiting = GuestFolder.list(this.#guestsFolder).filter(
      ({ id }) => !this.#running.has(id) && !this.#starting.has(id),
    );
    const worker = async (): Promise<void> => {
      for (let folder = waiting.pop(); folder !== undefined; folder = waiting.pop()) {
        const card = folder.readCard();
        if (card === undefined) {
          await this.forget(folder.id);
          continue;
        }
        try {
          const found = await this.#adoptOne(folder, card);
          if (found instanceof SupervisedGuest) running.push(this.#register(found));
          else if (found !== undefined) ended.push(found);
        } catch (err) {
          const error = err instanceof Error ? err : new Error(String(err));
          this.options.log.warn({ resource: card.label, err: error.message }, "cannot adopt a guest");
          unreachable.push({ id: card.id, label: card.label, error });
        }
      }
    };
    await Promise.all(Array.from({ length: ADOPT_AT_ONCE }, worker));
    return { running, ended, unreachable };
  }

  /** The end of what a guest's program printed, also after it has ended. */
  lastWords(id: string): string {
    return this.#said.get(id) ?? new GuestFolder(this.#guestsFolder, id).lastWords();
  }

  async forget(id: string): Promise<void> {
    if (this.#starting.has(id)) throw new AppError("object.conflict", `guest ${id} is being started`);
    const removal = this.#remove(id);
    this.#forgetting.set(
      id,
      removal.catch((err: unknown) => ignore(err, "told to whoever wanted it forgotten")),
    );
    try {
      await removal;
    } finally {
      this.#forgetting.delete(id);
    }
  }

  async #remove(id: string): Promise<void> {
    if (this.#running.has(id)) throw new AppError("object.conflict", `guest ${id} is still running`);
    const folder = new GuestFolder(this.#guestsFolder, id);
    const state = folder.readState();
    if (state !== undefined && folder.readCard()?.bootId === bootId() && isRunning(state))
      throw new AppError("object.conflict", `guest ${id} is still running`);
    this.#cgroups?.killAll(id);
    // First, and so also when its cgroup does not go.
    await giveBack(folder, folder.readCard()?.uid ?? this.#uids.get(id));
    await this.#cgroups?.remove(id);
    this.#uids.free(id);
    folder.remove();
  }

  /** After the last guest has been stopped for good: takes the instance's own cgroups away. */
  sweep(): void {
    this.#cgroups?.removeAll();
  }

  /** Guests run on without us; where there are none, nothing of this instance stays in the kernel. */
  leave(): void {
    if (this.list().length === 0) this.sweep();
    this.close();
  }

  close(): void {
    for (const guest of this.#running.values()) guest.release();
    this.#running.clear();
  }

  async #start(
    start: SpecStart,
    kind: KindCard,
    folder: GuestFolder,
    options: CallOptions,
  ): Promise<SupervisedGuest> {
    const cgroups = this.#cgroups;
    const guardFile = this.options.guardOf?.(start.id);
    const uid =
      cgroups === undefined
        ? undefined
        : start.asRoot === true || start.asHost === true
          ? 0
          : this.#uids.take(start.id, start.outwardOnly === true);
    folder.create();
    for (const file of start.ioFiles ?? []) {
      const target = join(folder.io, basename(file.name));
      if ("content" in file) await writeFile(target, file.content);
      else await copyFile(file.copyOf, target);
      if (uid !== undefined) await prepareFile({ path: target, access: "rw" }, uid);
    }
    if (uid !== undefined) {
      await withHeldFile(folder.io, ({ chown }) => chown(uid, uid));
      // Root needs no help, and what it serves is others'.
      if (uid !== 0) for (const file of start.files) await lendFile(folder, file, uid);
    }
    const card: ProcessCard = {
      id: start.id,
      label: start.label,
      bootId: bootId(),
      ...kind,
      startedAt: this.clock.now(),
      confined: this.confinement.level !== "none",
      ...(uid === undefined ? {} : { uid, inGroup: true }),
      ...given({ note: start.note }),
    };
    folder.writeCard(card);
    if (guardFile !== undefined) folder.markGuarded(true);
    const cgroupFiles = cgroups?.create(start.id) ?? [];
    if (start.limits !== undefined) cgroups?.apply(start.id, start.limits);
    for (const missing of cgroups?.bound(start.id, start.bounds ?? {}) ?? [])
      this.options.log.warn({ resource: start.label }, missing);
    const specFile = folder.file("spec");
    const holdFiles = cgroups?.holdFiles() ?? [];
    writeFileSync(
      specFile,
      renderSpec(
        specOf(start, folder, {
          uid,
          cgroupFiles,
          holdFiles,
          guardFile,
          userNamespace: this.confinement.level === "partial",
        }),
      ),
      {
        mode: 0o600,
      },
    );
    const line = await childSpan(`exec ${basename(start.program)}`, { "gpve.guest": start.label }, () =>
      spawnReporting(this.options.supervisor, ["--data", this.options.dataFolder, "--spec", specFile], {
        timeoutMs: options.timeoutMs ?? START_TIMEOUT_MS,
      }),
    );
    rmSync(specFile, { force: true });
    if (!line.startsWith("started ")) throw startFailure(start.label, line.replace(/^failed /, ""), folder);
    const state = folder.readState();
    if (state === undefined) throw startFailure(start.label, "its supervisor left no state", folder);
    const parts = this.#partsOf(folder, card, state);
    try {
      return await this.connect(parts, { timeoutMs: START_TIMEOUT_MS, ...options });
    } catch (err) {
      await new SupervisedGuest(parts).kill();
      throw startFailure(start.label, messageOf(err), folder, err);
    }
  }

  /** Speaks to the process, where its kind can be spoken to. */
  protected async connect(parts: SupervisedGuestParts, _options: ConnectOptions): Promise<SupervisedGuest> {
    return new SupervisedGuest(parts);
  }

  /** The same for one that runs already. */
  protected adoptRunning(parts: SupervisedGuestParts): Promise<SupervisedGuest> {
    return this.connect(parts, { timeoutMs: ADOPT_TIMEOUT_MS });
  }

  #partsOf(folder: GuestFolder, card: ProcessCard, state: GuestState): SupervisedGuestParts {
    return { folder, card, state, cgroups: this.#cgroups, clock: this.clock, log: this.options.log };
  }

  async #adoptOne(folder: GuestFolder, card: ProcessCard): Promise<SupervisedGuest | EndedGuest | undefined> {
    const ended = (record: ReturnType<GuestFolder["readExit"]>): EndedGuest => ({
      id: card.id,
      label: card.label,
      note: card.note,
      exit: exitOf(folder, card, record, this.clock, this.#cgroups),
    });
    if (card.bootId !== bootId()) return ended(undefined);
    const state = folder.readState() ?? (await this.#stateOfUnfinished(folder));
    if (state === undefined) {
      // Whoever started it ended before its supervisor did anything: there never was a guest.
      await this.forget(card.id);
      return undefined;
    }
    if (card.uid !== undefined) this.#uids.note(card.id, card.uid);
    try {
      if (isRunning(state)) return await this.adoptRunning(this.#partsOf(folder, card, state));
    } catch (err) {
      if (isRunning(state)) throw err;
      ignore(err, "it ended while it was spoken to");
    }
    for (let attempt = 0; attempt < 20; attempt++) {
      const record = recordOf(folder, state);
      if (record !== undefined) return ended(record);
      if (!supervises(folder.file("spec"), this.options.dataFolder)) break;
      await this.clock.sleep(100);
    }
    return ended(recordOf(folder, state));
  }

  /** We may have died while a supervisor was starting its guest. */
  async #stateOfUnfinished(folder: GuestFolder): Promise<GuestState | undefined> {
    for (let attempt = 0; attempt < 100; attempt++) {
      const alive = supervises(folder.file("spec"), this.options.dataFolder);
      const state = folder.readState();
      if (state !== undefined || !alive) return state;
      await this.clock.sleep(100);
    }
    return undefined;
  }

  #register(guest: SupervisedGuest): SupervisedGuest {
    this.#running.set(guest.id, guest);
    this.#said.delete(guest.id);
    void guest.exited.then((exit) => {
      // Its folder may be forgotten; what it said at the end is asked for later.
      this.#said.set(guest.id, exit.lastWords);
      if (this.#running.get(guest.id) === guest) this.#running.delete(guest.id);
      const { id, label, note } = guest;
      for (const listener of this.#exitListeners) listener({ id, label, note, exit });
    });
    return guest;
  }
}
