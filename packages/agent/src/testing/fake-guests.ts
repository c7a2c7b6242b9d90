// Guests without QEMU: processes that exist in memory and monitors that answer as told.
import { conflict } from "@gpve/domain/request/failures.ts";
import type {
  Adoption,
  Confinement,
  EndedGuest,
  GuestBounds,
  GuestExit,
  GuestFile,
  GuestLimits,
  GuestPlace,
  GuestStart,
  GuestUsage,
} from "@gpve/domain/guest/guest-processes.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { QemuProcess, QemuProcesses, QemuStart } from "@gpve/domain/vm/qemu-processes.ts";
import { FakeQmp, type FakeQmpAnswer } from "./fake-qmp.ts";

export class FakeGuest implements QemuProcess {
  readonly id: string;
  readonly label: string;
  readonly pid = 4242;
  readonly startedAt = Date.now();
  readonly uid = undefined;
  readonly note: unknown;
  readonly qmp: FakeQmp;
  readonly exited: Promise<GuestExit>;
  readonly ioFolder: string;
  readonly files: string[] = [];
  limits: GuestLimits | undefined;
  bounds: GuestBounds | undefined;
  status = "running";
  migration = "none";
  hasExited = false;
  readonly isQemu: boolean;
  /** Told before anybody else. */
  onEnd: (exit: GuestExit) => void = () => undefined;
  readonly #end: (exit: GuestExit) => void;
  readonly #holds = new Set<symbol>();

  constructor(start: GuestStart, answers: ReadonlyMap<string, FakeQmpAnswer>, isQemu = true) {
    this.isQemu = isQemu;
    this.id = start.id;
    this.label = start.label;
    this.note = start.note;
    this.bounds = start.bounds;
    this.ioFolder = `/nowhere/${start.id}`;
    const { promise, resolve } = Promise.withResolvers<GuestExit>();
    this.exited = promise;
    this.#end = resolve;
    if (start.args.includes("-S")) this.status = "prelaunch";
    if (start.args.includes("-incoming")) this.status = "inmigrate";
    const set = (status: string) => () => {
      this.status = status;
      return {};
    };
    this.qmp = new FakeQmp(
      start.label,
      new Map<string, FakeQmpAnswer>([
        ["query-status", () => ({ status: this.status, running: this.status === "running" })],
        ["query-version", () => ({ qemu: { major: 7, minor: 2, micro: 0 }, package: "" })],
        ["query-blockstats", () => [{ qdev: "scsi0", stats: { rd_bytes: 5, wr_bytes: 7 } }]],
        ["query-block", () => []],
        ["query-named-block-nodes", () => []],
        ["stop", set("paused")],
        ["cont", set("running")],
        ["system_reset", () => ({})],
        ["system_powerdown", () => ({})],
        ["migrate-set-capabilities", () => ({})],
        ["migrate-set-parameters", () => ({})],
        ["migrate-incoming", () => this.#migration("completed", "paused")],
        ["migrate", () => this.#migration("pre-switchover")],
        ["migrate-continue", () => this.#migration("completed", "postmigrate")],
        ["migrate_cancel", () => this.#migration("cancelled")],
        ["query-migrate", () => ({ status: this.migration })],
        ...answers,
      ]),
    );
  }

  #migration(state: string, status = this.status): object {
    this.migration = state;
    this.status = status;
    return {};
  }

  socketPath(name: string): string {
    return `${this.ioFolder}/${name}.sock`;
  }

  async allowFile(file: GuestFile): Promise<void> {
    this.files.push(file.path);
  }

  async forbidFile(path: string): Promise<void> {
    const at = this.files.indexOf(path);
    if (at >= 0) this.files.splice(at, 1);
  }

  holdOpen(): () => void {
    const hold = Symbol(this.label);
    this.#holds.add(hold);
    return () => {
      if (this.#holds.delete(hold) && this.#holds.size === 0 && this.status === "shutdown")
        this.#finish("shutdown");
    };
  }

  async plugTap(): Promise<void> {
    // A fake has no network.
  }

  pressure(): Readonly<Record<string, number>> {
    return {};
  }

  usage(): GuestUsage {
    return { cpuNs: 0, memoryBytes: 0, memoryAnonBytes: 0 };
  }

  raiseBounds(bounds: GuestBounds): void {
    this.bounds = bounds;
  }

  setLimits(limits: GuestLimits): void {
    this.limits = limits;
  }

  /** A guest that switches itself off ends its process once nobody holds it. */
  end(cause: GuestExit["cause"]): Promise<GuestExit> {
    if (cause !== "shutdown" || this.#holds.size === 0) this.#finish(cause);
    else this.status = "shutdown";
    return this.exited;
  }

  #finish(cause: GuestExit["cause"]): void {
    if (this.hasExited) return;
    this.hasExited = true;
    const exit: GuestExit = { cause, at: Date.now(), outOfMemory: false, lastWords: "" };
    this.qmp.end();
    this.onEnd(exit);
    this.#end(exit);
  }

  stop(): Promise<GuestExit> {
    return this.end("stopped");
  }

  kill(): Promise<GuestExit> {
    return this.end("stopped");
  }
}

/** What a host remembers of its guests, whoever looks after them. */
interface FakeHost {
  readonly alive: Map<string, FakeGuest>;
  readonly ended: Map<string, EndedGuest>;
}

export class FakeGuests implements QemuProcesses {
  confinement: Confinement = { level: "full", detail: "fake" };
  readonly starts: QemuStart[] = [];
  /** Added to every guest started from now on. */
  readonly answers = new Map<string, FakeQmpAnswer>();
  /** The next start fails with it. */
  failure: Error | undefined;
  readonly #host: FakeHost;
  readonly #known = new Map<string, FakeGuest>();
  readonly #listeners = new Set<(ended: EndedGuest) => void>();

  constructor(host: FakeHost = { alive: new Map(), ended: new Map() }) {
    this.#host = host;
  }

  /** Another agent on the same host. */
  reopened(): FakeGuests {
    return new FakeGuests(this.#host);
  }

  /** A guest of this host ends, whoever looks after it. */
  end(id: string, cause: GuestExit["cause"]): Promise<GuestExit> | undefined {
    return this.#host.alive.get(id)?.end(cause);
  }

  start(start: GuestStart): Promise<FakeGuest> {
    return this.#start(start, false);
  }

  startQemu(start: QemuStart): Promise<FakeGuest> {
    return this.#start(start, true);
  }

  async #start(start: QemuStart, isQemu: boolean): Promise<FakeGuest> {
    this.starts.push(start);
    const { failure } = this;
    this.failure = undefined;
    if (failure !== undefined) throw failure;
    const words = start.args[start.args.indexOf("-fail") + 1];
    if (start.args.includes("-fail"))
      throw new AppError("guest.start_failed", `start failed: ${words}`, { pveStatus: 500 });
    if (this.#host.alive.has(start.id)) throw conflict(`${start.label} already running`);
    const guest = new FakeGuest(start, this.answers, isQemu);
    this.#host.alive.set(start.id, guest);
    this.#host.ended.delete(start.id);
    guest.onEnd = (exit) => {
      this.#host.alive.delete(guest.id);
      this.#host.ended.set(guest.id, { id: guest.id, label: guest.label, note: guest.note, exit });
    };
    return this.#register(guest);
  }

  #register(guest: FakeGuest): FakeGuest {
    this.#known.set(guest.id, guest);
    void guest.exited.then((exit) => {
      const { id, label, note } = guest;
      for (const listener of this.#listeners) listener({ id, label, note, exit });
    });
    return guest;
  }

  async adopt(): Promise<Adoption> {
    const found = [...this.#host.alive.values()].filter(({ id }) => this.get(id) === undefined);
    return {
      running: found.map((guest) => this.#register(guest)),
      ended: [...this.#host.ended.values()].filter(({ id }) => !this.#known.has(id)),
      unreachable: [],
    };
  }

  uidOf(): undefined {
    return undefined;
  }

  placeOf(id: string): GuestPlace {
    return { socketPath: (name) => `/nowhere/${id}/${name}.sock`, ioFolder: `/nowhere/${id}` };
  }

  get(id: string): FakeGuest | undefined {
    const guest = this.#known.get(id);
    return guest?.hasExited === true ? undefined : guest;
  }

  qemu(id: string): FakeGuest | undefined {
    const guest = this.get(id);
    return guest?.isQemu === true ? guest : undefined;
  }

  list(): readonly FakeGuest[] {
    return [...this.#known.values()].filter((guest) => !guest.hasExited);
  }

  onExit(listener: (ended: EndedGuest) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async forget(id: string): Promise<void> {
    if (this.#host.alive.has(id)) throw new AppError("object.conflict", `guest ${id} is still running`);
    this.#known.delete(id);
    this.#host.ended.delete(id);
  }

  sweep(): void {
    // Nothing is kept.
  }

  close(): void {
    this.#known.clear();
  }
}
