// The agent's side of the proxy: has it running, tells it what there is, and hears who wants in.
import type { Socket } from "node:net";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { GuestFile, GuestProcesses } from "@gpve/domain/guest/guest-processes.ts";
import type { ClusterFront, FrontActivity, FrontRoute } from "@gpve/domain/vcluster/cluster-front.ts";
import type { ElsewhereRoute } from "@gpve/domain/vcluster/cluster-places.ts";
import { given } from "@gpve/contracts/given.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { OWN_PROGRAM_ENV } from "@gpve/kit/own-program-env.ts";
import { connectUnixSocket } from "@gpve/kit/unix-socket.ts";
import type { SelfProgram } from "../store-process.ts";
import { type FromProxy, onLines, sendLine, type ToProxy } from "./proxy-messages.ts";

export interface FrontAddress {
  /** What it listens on. */
  readonly host: string;
  /** By which clients reach that. */
  readonly name: string;
}

export interface ProxyProcessDeps {
  readonly folder: string;
  readonly processes: Pick<GuestProcesses, "start" | "get" | "forget" | "onExit">;
  readonly self: SelfProgram;
  readonly clock: Clock;
  readonly log: Logger;
  readonly address: FrontAddress;
  readonly sharedPort: number;
}

const PROXY_ID = "proxy";
const ANSWER_MS = 30_000;
const AGAIN_MS = 1_000;
/** Where the process finds the socket for the agent. */
export const PROXY_CONTROL_FD = 40;

const NOTHING: FrontActivity = { lastAt: 0, connections: 0, held: 0 };

export class ProxyProcess implements ClusterFront {
  readonly #deps: ProxyProcessDeps;
  readonly #acks = new Map<number, () => void>();
  #routes: readonly FrontRoute[] = [];
  #elsewhere: readonly ElsewhereRoute[] | undefined;
  #link: Socket | undefined;
  #linking: Promise<Socket> | undefined;
  #seq = 0;
  #seen: Readonly<Record<string, FrontActivity>> = {};
  #wake: (name: string) => void = () => undefined;
  #isClosed = false;

  constructor(deps: ProxyProcessDeps) {
    this.#deps = deps;
    deps.processes.onExit(({ id }) => {
      if (id === PROXY_ID && !this.#isClosed && this.#isNeeded) this.#later();
    });
  }

  url(port: number): string {
    const { name } = this.#deps.address;
    return `https://${name.includes(":") ? `[${name}]` : name}:${port}`;
  }

  async show(routes: readonly FrontRoute[], elsewhere: readonly ElsewhereRoute[] | undefined): Promise<void> {
    this.#routes = routes;
    this.#elsewhere = elsewhere ?? this.#elsewhere;
    if (this.#isNeeded) await this.#tell();
    // While nobody knows which there are, those that it was told of before are still good.
    else if (this.#elsewhere !== undefined) await this.#end();
  }

  activity(name: string): FrontActivity {
    return this.#seen[name] ?? NOTHING;
  }

  refuse(name: string): void {
    if (this.#link !== undefined) sendLine(this.#link, { refuse: name } satisfies ToProxy);
  }

  onWake(listener: (name: string) => void): void {
    this.#wake = listener;
  }

  close(): void {
    this.#isClosed = true;
    this.#link?.destroy();
  }

  get #isNeeded(): boolean {
    return this.#routes.length > 0 || (this.#elsewhere ?? []).length > 0;
  }

  async #tell(): Promise<void> {
    const link = await this.#linked();
    const seq = ++this.#seq;
    const { promise: answer, resolve } = Promise.withResolvers<boolean>();
    const giveUp = (): void => resolve(false);
    this.#acks.set(seq, () => resolve(true));
    link.once("close", giveUp);
    const stopWaiting = this.#deps.clock.after(ANSWER_MS, giveUp);
    const elsewhere = this.#elsewhere;
    const words = { seq, host: this.#deps.address.host, routes: this.#routes, ...given({ elsewhere }) };
    sendLine(link, words satisfies ToProxy);
    const answered = await answer;
    stopWaiting();
    link.off("close", giveUp);
    this.#acks.delete(seq);
    if (!answered) throw new AppError("request.timeout", "the proxy of virtual clusters does not answer");
  }

  #linked(): Promise<Socket> {
    if (this.#link !== undefined) return Promise.resolve(this.#link);
    this.#linking ??= this.#connect().finally(() => {
      this.#linking = undefined;
    });
    return this.#linking;
  }

  async #connect(): Promise<Socket> {
    const { processes, clock } = this.#deps;
    const running = processes.get(PROXY_ID);
    const proxy = running === undefined || running.hasExited ? await this.#start() : running;
    const link = await connectUnixSocket(proxy.socketPath("agent"), { timeoutMs: ANSWER_MS, clock });
    this.#link = link;
    link.on("error", () => link.destroy());
    link.once("close", () => {
      if (this.#link === link) this.#link = undefined;
      if (!this.#isClosed && this.#isNeeded) this.#later();
    });
    onLines(link, (message) => this.#take(message as FromProxy));
    return link;
  }

  async #start(): ReturnType<GuestProcesses["start"]> {
    const { processes, self, folder, sharedPort } = this.#deps;
    return processes.start({
      id: PROXY_ID,
      label: "the way in to virtual clusters",
      program: self.program,
      args: [...self.args, "vc-proxy", folder, String(sharedPort)],
      env: OWN_PROGRAM_ENV,
      files: self.folders.map((path): GuestFile => ({ path, access: "ro" })),
      sockets: [{ name: "agent", fd: PROXY_CONTROL_FD }],
      hostNetwork: true,
    });
  }

  #take(message: FromProxy): void {
    if ("ack" in message) this.#acks.get(message.ack)?.();
    else if ("wake" in message) this.#wake(message.wake);
    else this.#seen = message.seen;
  }

  /** It ended, or hung up: tenants cannot get in until it has been told again. */
  #later(): void {
    const { clock, log } = this.#deps;
    clock.after(AGAIN_MS, () => {
      if (this.#isClosed || !this.#isNeeded || this.#link !== undefined) return;
      this.#tell().catch((err: unknown) => {
        log.warn({ err: messageOf(err) }, "the proxy of virtual clusters cannot be spoken to");
        this.#later();
      });
    });
  }

  async #end(): Promise<void> {
    const { processes } = this.#deps;
    this.#link?.destroy();
    this.#seen = {};
    const running = processes.get(PROXY_ID);
    if (running === undefined) return;
    await running.stop();
    await processes.forget(PROXY_ID).catch((err: unknown) => ignore(err, "it goes with the next start"));
  }
}
