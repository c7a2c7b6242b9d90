// The agent's side of the process that keeps lines to standbys: has it running where one is wanted, and tells it which. It outlives the
// agent with its lines, and the next agent finds them as they are.
import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import { AppError } from "@gpve/contracts/errors.ts";
import type { GuestFile, GuestProcesses } from "@gpve/domain/guest/guest-processes.ts";
import type { LastingLine, LastingLines, LineEnd } from "@gpve/domain/vcluster/standby/ports.ts";
import type { DirectPlace } from "@gpve/domain/vm/migrate/direct-line.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { OWN_PROGRAM_ENV } from "@gpve/kit/own-program-env.ts";
import { connectUnixSocket } from "@gpve/kit/unix-socket.ts";
import { onLines, sendLine } from "../proxy/proxy-messages.ts";
import type { SelfProgram, StoreProcess } from "../store-process.ts";
import type { DialWords, FromLines, PlaceWords, ToLines } from "./line-messages.ts";

export interface LineProcessDeps {
  readonly processes: Pick<GuestProcesses, "start" | "get" | "forget">;
  readonly stores: Pick<StoreProcess, "lendLinks">;
  readonly self: SelfProgram;
  readonly clock: Clock;
}

const LINE_ID = "line";
/** It tries for seconds whether a line gets through. */
const ANSWER_MS = 10_000;
const LINK_MS = 30_000;
/** Where the process finds the socket for the agent. */
export const LINE_CONTROL_FD = 40;

type Ack = Extract<FromLines, { readonly ack: number }>;

export class LineProcess implements LastingLines {
  readonly #deps: LineProcessDeps;
  readonly #acks = new Map<number, (ack: Ack) => void>();
  /** Those who wait for a line to be cut, by its name. */
  readonly #waiting = new Map<string, Set<() => void>>();
  #link: Socket | undefined;
  #linking: Promise<Socket> | undefined;
  #ending: Promise<void> = Promise.resolve();
  readonly #lines = new Map<string, boolean>();
  #kept: string | undefined;
  #seq = 0;

  constructor(deps: LineProcessDeps) {
    this.#deps = deps;
  }

  async adopt(): Promise<void> {
    if (this.#runs) await this.#linked();
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
    this.#tell({ drop: id });
  }

  async place(id: string, address: string, { path }: LineEnd): Promise<DirectPlace> {
    const secret = randomBytes(32).toString("hex");
    const listen: PlaceWords = { id, address, secret, path };
    const { port = 0 } = await this.#ask((seq) => ({ seq, listen }));
    return { port, secret };
  }

  keepPlaces(ids: readonly string[]): void {
    const kept = ids.toSorted().join(" ");
    if (this.#link === undefined || this.#kept === kept) return;
    this.#kept = kept;
    this.#tell({ keep: ids });
  }

  async endIfIdle(): Promise<void> {
    if (this.#linking !== undefined || this.#acks.size > 0) return;
    this.#ending = this.#end();
    await this.#ending;
  }

  /** The agent goes; the lines stay. */
  leave(): void {
    this.#link?.destroy();
  }

  async #end(): Promise<void> {
    const { processes } = this.#deps;
    const running = processes.get(LINE_ID);
    if (running === undefined) return;
    this.#link?.destroy();
    await running.stop();
    await processes.forget(LINE_ID).catch((err: unknown) => ignore(err, "it goes with the next start"));
  }

  get #runs(): boolean {
    const running = this.#deps.processes.get(LINE_ID);
    return running !== undefined && !running.hasExited;
  }

  #tell(message: ToLines): void {
    if (this.#link !== undefined) sendLine(this.#link, message);
  }

  async #ask(words: (seq: number) => ToLines): Promise<Ack> {
    const link = await this.#linked();
    const seq = ++this.#seq;
    const { promise, resolve } = Promise.withResolvers<Ack>();
    const giveUp = (): void => resolve({ ack: seq, why: "who keeps lines to standbys does not answer" });
    this.#acks.set(seq, resolve);
    link.once("close", giveUp);
    const stopWaiting = this.#deps.clock.after(ANSWER_MS, giveUp);
    sendLine(link, words(seq));
    const ack = await promise;
    stopWaiting();
    link.off("close", giveUp);
    this.#acks.delete(seq);
    const { why, isReached } = ack;
    if (why === undefined) return ack;
    throw new AppError(isReached === true ? "store.unavailable" : "node.unavailable", why);
  }

  #linked(): Promise<Socket> {
    if (this.#link !== undefined) return Promise.resolve(this.#link);
    this.#linking ??= this.#connect().finally(() => {
      this.#linking = undefined;
    });
    return this.#linking;
  }

  /** Resolves when it has said which lines it has. */
  async #connect(): Promise<Socket> {
    const { processes, clock } = this.#deps;
    await this.#ending.catch((err: unknown) => ignore(err, "whoever ended it is told"));
    const running = processes.get(LINE_ID);
    const process = running === undefined || running.hasExited ? await this.#start() : running;
    const link = await connectUnixSocket(process.socketPath("agent"), { timeoutMs: LINK_MS, clock });
    const { promise: heard, resolve } = Promise.withResolvers<boolean>();
    const stopWaiting = clock.after(LINK_MS, () => link.destroy());
    link.on("error", () => link.destroy());
    link.once("close", () => {
      resolve(false);
      if (this.#link === link) this.#link = undefined;
      // Nobody knows of any until there is a link again.
      this.#seeAll({});
    });
    onLines(link, (message) => {
      const said = message as FromLines;
      if ("lines" in said) this.#seeAll(said.lines);
      else if ("line" in said) this.#see(said.line, said.isOpen);
      else this.#acks.get(said.ack)?.(said);
      resolve(true);
    });
    const isThere = await heard;
    stopWaiting();
    if (!isThere) throw new AppError("request.timeout", "who keeps lines to standbys does not answer");
    this.#link = link;
    this.#kept = undefined;
    return link;
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
