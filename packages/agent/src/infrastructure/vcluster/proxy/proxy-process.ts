// The agent's side of the proxy: has it running, tells it what there is, and hears who wants in.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { GuestFile, GuestProcesses } from "@gpve/domain/guest/guest-processes.ts";
import type { ClusterFront, FrontActivity, FrontRoute } from "@gpve/domain/vcluster/cluster-front.ts";
import type { ElsewhereRoute } from "@gpve/domain/vcluster/cluster-places.ts";
import { given } from "@gpve/contracts/given.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { OWN_PROGRAM_ENV } from "@gpve/kit/own-program-env.ts";
import { ProcessLink } from "../link/process-link.ts";
import type { SelfProgram } from "../store-process.ts";
import type { FromProxy, ToProxy } from "./proxy-messages.ts";

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
const LABEL = "the proxy of virtual clusters";
const ANSWER_MS = 30_000;
const AGAIN_MS = 1_000;
/** Where the process finds the socket for the agent. */
export const PROXY_CONTROL_FD = 40;

type Acked = Extract<FromProxy, { readonly ack: number }>;

const NOTHING: FrontActivity = { lastAt: 0, connections: 0, held: 0 };

export class ProxyProcess implements ClusterFront {
  readonly #deps: ProxyProcessDeps;
  readonly #link: ProcessLink<Acked>;
  #routes: readonly FrontRoute[] = [];
  #elsewhere: readonly ElsewhereRoute[] | undefined;
  #seen: Readonly<Record<string, FrontActivity>> = {};
  #wake: (name: string) => void = () => undefined;
  #isClosed = false;

  constructor(deps: ProxyProcessDeps) {
    this.#deps = deps;
    const { processes, clock } = deps;
    this.#link = new ProcessLink({
      id: PROXY_ID,
      label: LABEL,
      processes,
      clock,
      start: () => this.#start(),
      said: (message) => this.#take(message as Exclude<FromProxy, Acked>),
      closed: () => {
        if (!this.#isClosed && this.#isNeeded) this.#later();
      },
    });
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
    else if (this.#elsewhere !== undefined) {
      this.#seen = {};
      await this.#link.end();
    }
  }

  activity(name: string): FrontActivity {
    return this.#seen[name] ?? NOTHING;
  }

  refuse(name: string): void {
    this.#link.tell({ refuse: name } satisfies ToProxy);
  }

  onWake(listener: (name: string) => void): void {
    this.#wake = listener;
  }

  close(): void {
    this.#isClosed = true;
    this.#link.leave();
  }

  get #isNeeded(): boolean {
    return this.#routes.length > 0 || (this.#elsewhere ?? []).length > 0;
  }

  async #tell(): Promise<void> {
    const { host } = this.#deps.address;
    // As it is when there is a link.
    const words = (seq: number): ToProxy => {
      const elsewhere = this.#elsewhere;
      return { seq, host, routes: this.#routes, ...given({ elsewhere }) };
    };
    if ((await this.#link.ask(words, ANSWER_MS)) === undefined)
      throw new AppError("request.timeout", `${LABEL} does not answer`);
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

  #take(message: Exclude<FromProxy, Acked>): void {
    if ("wake" in message) this.#wake(message.wake);
    else this.#seen = message.seen;
  }

  /** It ended, or hung up: tenants cannot get in until it has been told again. */
  #later(): void {
    const { clock, log } = this.#deps;
    clock.after(AGAIN_MS, () => {
      if (this.#isClosed || !this.#isNeeded || this.#link.isOpen) return;
      this.#tell().catch((err: unknown) => {
        log.warn({ err: messageOf(err) }, "the proxy of virtual clusters cannot be spoken to");
        this.#later();
      });
    });
  }
}
