// The way of a node's workers to a control plane of several replicas: one address that stays, behind it the replica of this
// node while that serves, else one that does. Nobody has to tell it of replacements: replicas are at a few known addresses of
// the cluster's own network, and it looks at all of them.
import { createServer, type Server, type Socket } from "node:net";
import { API_PORT } from "@gpve/domain/vcluster/control-plane.ts";
import { replicaAddresses } from "@gpve/domain/vcluster/replicas/replica-places.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { type PassageTarget, ClusterPassages } from "@gpve/kit/net/cluster-passages.ts";

export interface ApiBalancerDeps {
  /** Of the replica of this node. */
  readonly own: string;
  /** Whether the API server there says that it is ready. */
  readonly isReady: (target: PassageTarget) => Promise<boolean>;
  readonly clock: Clock;
  readonly lookMs?: number;
}

/** The first look at somebody counts for all that ask in this time. */
const LOOK_MS = 2_000;
/** While the one of this node serves, the others are looked at this much more seldom. */
const SELDOM = 8;
/** A client of TLS speaks first; one that does not is none. */
const FIRST_WORDS_MS = 10_000;
const MOST_CONNECTIONS = 4_096;

export class ApiBalancer {
  readonly #deps: ApiBalancerDeps;
  readonly #passages: ClusterPassages;
  readonly #places: readonly PassageTarget[];
  readonly #seen = new Map<string, { readonly isReady: boolean; readonly at: number }>();
  readonly #looking = new Map<string, Promise<boolean>>();
  #server: Server | undefined;
  #looks = 0;
  #stop: () => void = () => undefined;
  #isClosed = false;

  constructor(deps: ApiBalancerDeps) {
    this.#deps = deps;
    const { own, clock, lookMs = LOOK_MS } = deps;
    const addresses = [own, ...replicaAddresses(own).filter((address) => address !== own)];
    this.#places = addresses.map((host) => ({ host, port: API_PORT }));
    this.#passages = new ClusterPassages({
      targets: () => this.targets(),
      serves: (target) => this.#ready(target),
      clock,
      lookMs,
    });
  }

  /** Resolves when it takes connections. */
  async listen(at: { readonly host: string; readonly port: number }): Promise<number> {
    const server = createServer({ noDelay: true, keepAlive: true }, (socket) => this.#take(socket));
    server.maxConnections = MOST_CONNECTIONS;
    this.#server = server;
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(at, resolve);
    });
    void this.#look();
    const address = server.address();
    return typeof address === "object" && address !== null ? address.port : 0;
  }

  /** In the order in which they are tried: this node's while it serves, and last where nobody is known to. */
  targets(): readonly PassageTarget[] {
    const [own, ...others] = this.#places;
    const serving = others.filter(({ host }) => this.#seen.get(host)?.isReady === true);
    if (own === undefined) return serving;
    return this.#seen.get(own.host)?.isReady === true ? [own, ...serving] : [...serving, own];
  }

  close(): void {
    this.#isClosed = true;
    this.#stop();
    this.#server?.close();
    this.#passages.close();
  }

  #take(socket: Socket): void {
    const { clock } = this.#deps;
    socket.on("error", () => socket.destroy());
    const giveUp = clock.after(FIRST_WORDS_MS, () => socket.destroy());
    socket.once("close", giveUp);
    socket.once("data", (first: Buffer) => {
      giveUp();
      socket.pause();
      this.#passages.passOn("")?.(socket, first);
    });
  }

  async #look(): Promise<void> {
    const { clock, lookMs = LOOK_MS } = this.#deps;
    const [own, ...others] = this.#places;
    const serves = own !== undefined && (await this.#ready(own));
    if (!serves || this.#looks++ % SELDOM === 0) await Promise.all(others.map((each) => this.#ready(each)));
    if (!this.#isClosed) this.#stop = clock.after(lookMs, () => void this.#look());
  }

  /** Whoever asks at the same time is told the same. */
  #ready(target: PassageTarget): Promise<boolean> {
    const { clock, isReady, lookMs = LOOK_MS } = this.#deps;
    const known = this.#seen.get(target.host);
    if (known !== undefined && clock.monotonic() - known.at < lookMs / 2)
      return Promise.resolve(known.isReady);
    const begun = this.#looking.get(target.host);
    if (begun !== undefined) return begun;
    const asked = isReady(target).then((answer) => {
      this.#looking.delete(target.host);
      this.#seen.set(target.host, { isReady: answer, at: clock.monotonic() });
      return answer;
    });
    this.#looking.set(target.host, asked);
    return asked;
  }
}
