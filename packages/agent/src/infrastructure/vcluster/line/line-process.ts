// The agent's side of the process that keeps lines to standbys: has it running where one is wanted, and tells it which. It outlives the
// agent with its lines, and the next agent finds them as they are.
import { randomBytes } from "node:crypto";
import { AppError } from "@gpve/contracts/errors.ts";
import type { GuestFile, GuestProcesses } from "@gpve/domain/guest/guest-processes.ts";
import type { LastingLine, LastingLines, LineEnd } from "@gpve/domain/vcluster/standby/ports.ts";
import type { DirectPlace } from "@gpve/domain/vm/migrate/direct-line.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { OWN_PROGRAM_ENV } from "@gpve/kit/own-program-env.ts";
import { ProcessLink } from "../link/process-link.ts";
import type { SelfProgram, StoreProcess } from "../store-process.ts";
import type { DialWords, FromLines, PlaceWords, ToLines } from "./line-messages.ts";

export interface LineProcessDeps {
  readonly processes: Pick<GuestProcesses, "start" | "get" | "forget">;
  readonly stores: Pick<StoreProcess, "lendLinks">;
  readonly self: SelfProgram;
  readonly clock: Clock;
}

const LINE_ID = "line";
const LABEL = "who keeps lines to standbys";
/** It tries for seconds whether a line gets through. */
const ANSWER_MS = 10_000;
/** Where the process finds the socket for the agent. */
export const LINE_CONTROL_FD = 40;

type Ack = Extract<FromLines, { readonly ack: number }>;

export class LineProcess implements LastingLines {
  readonly #deps: LineProcessDeps;
  readonly #link: ProcessLink<Ack>;
  /** Those who wait for a line to be cut, by its name. */
  readonly #waiting = new Map<string, Set<() => void>>();
  readonly #lines = new Map<string, boolean>();
  #kept: string | undefined;

  constructor(deps: LineProcessDeps) {
    this.#deps = deps;
    const { processes, clock } = deps;
    this.#link = new ProcessLink({
      id: LINE_ID,
      label: LABEL,
      processes,
      clock,
      start: () => this.#start(),
      // It says first which lines it has.
      greets: true,
      said: (message) => this.#take(message as Exclude<FromLines, Ack>),
      closed: () => {
        this.#kept = undefined;
        // Nobody knows of any until there is a link again.
        this.#seeAll({});
      },
    });
  }

  async adopt(): Promise<void> {
    if (this.#link.runs) await this.#link.linked();
  }

  opened(): readonly string[] {
    return [...this.#lines.keys()];
  }

  async isOpen(id: string): Promise<boolean> {
    await this.adopt();
    return this.#lines.get(id) === true;
  }

  async open({ id, address, place, end }: LastingLine): Promise<void> {
    const dial: DialWords = { id, address, place, path: end.path };
    await this.#ask((seq) => ({ seq, dial }));
  }

  async whileOpen(id: string, signal: AbortSignal): Promise<void> {
    while (this.#lines.get(id) === true && !signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const wake = (): void => resolve();
      const waiting = this.#waiting.get(id) ?? new Set();
      this.#waiting.set(id, waiting.add(wake));
      signal.addEventListener("abort", wake, { once: true });
      await promise;
      waiting.delete(wake);
      if (waiting.size === 0) this.#waiting.delete(id);
      signal.removeEventListener("abort", wake);
    }
  }

  close(id: string): void {
    this.#link.tell({ drop: id } satisfies ToLines);
  }

  async place(id: string, address: string, { path }: LineEnd): Promise<DirectPlace> {
    const secret = randomBytes(32).toString("hex");
    const listen: PlaceWords = { id, address, secret, path };
    const { port = 0 } = await this.#ask((seq) => ({ seq, listen }));
    return { port, secret };
  }

  keepPlaces(ids: readonly string[]): void {
    const kept = ids.toSorted().join(" ");
    if (!this.#link.isOpen || this.#kept === kept) return;
    this.#kept = kept;
    this.#link.tell({ keep: ids } satisfies ToLines);
  }

  async endIfIdle(): Promise<void> {
    if (!this.#link.isBusy) await this.#link.end();
  }

  /** The agent goes; the lines stay. */
  leave(): void {
    this.#link.leave();
  }

  async #ask(words: (seq: number) => ToLines): Promise<Ack> {
    const silence: Ack = { ack: 0, why: `${LABEL} does not answer` };
    const ack = (await this.#link.ask(words, ANSWER_MS)) ?? silence;
    const { why, isReached } = ack;
    if (why === undefined) return ack;
    throw new AppError(isReached === true ? "store.unavailable" : "node.unavailable", why);
  }

  async #start(): ReturnType<GuestProcesses["start"]> {
    const { processes, self, stores } = this.#deps;
    const links = await stores.lendLinks();
    return processes.start({
      id: LINE_ID,
      label: "the lines to standbys of virtual clusters",
      program: self.program,
      args: [...self.args, "vc-line"],
      env: OWN_PROGRAM_ENV,
      files: [
        ...self.folders.map((path): GuestFile => ({ path, access: "ro" })),
        { path: links, access: "ro", owned: true },
      ],
      sockets: [{ name: "agent", fd: LINE_CONTROL_FD }],
      hostNetwork: true,
    });
  }

  #take(message: Exclude<FromLines, Ack>): void {
    if ("lines" in message) this.#seeAll(message.lines);
    else this.#see(message.line, message.isOpen);
  }

  #seeAll(lines: Readonly<Record<string, boolean>>): void {
    for (const id of this.#lines.keys()) if (lines[id] === undefined) this.#see(id, undefined);
    for (const [id, isOpen] of Object.entries(lines)) this.#see(id, isOpen);
  }

  #see(id: string, isOpen: boolean | undefined): void {
    if (isOpen === undefined) this.#lines.delete(id);
    else this.#lines.set(id, isOpen);
    for (const wake of this.#waiting.get(id) ?? []) wake();
  }
}
