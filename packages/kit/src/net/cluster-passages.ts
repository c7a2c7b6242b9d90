// Connections for virtual clusters, from a server's own port to the node that has the cluster, or to a replica that answers: byte
// by byte, so that TLS ends in the cluster. A client speaks first, and until a replica has answered, its words can go to another.
import { connect, type Socket } from "node:net";
import type { Clock } from "../clock.ts";

export interface PassageTarget {
  readonly host: string;
  readonly port: number;
  /** Of the only one there is: whether its node is there. It may sleep: it is waited for, and not woken to see whether it is. */
  readonly isThere?: () => boolean;
}

export interface ClusterPassagesDeps {
  /** In the order in which they are to be tried; undefined = that name is nobody's. */
  readonly targets: (serverName: string) => readonly PassageTarget[] | undefined;
  readonly clock: Clock;
  /** To accept a connection: a kernel's work, which it does however busy the machine is. */
  readonly connectMs?: number;
  /** To say its first word. */
  readonly answerMs?: number;
  readonly lookMs?: number;
  /** Whether one that has connections still serves; absent: it does while it accepts others. */
  readonly serves?: (target: PassageTarget) => Promise<boolean>;
}

interface Watched {
  readonly target: PassageTarget;
  readonly clients: Set<Socket>;
  misses: number;
}

const CONNECT_MS = 750;
const ANSWER_MS = 3_000;
/** As long as its node lets a client wait for it. */
const WAKE_MS = 125_000;
const LOOK_MS = 2_000;
const MOST_MISSES = 2;
/** Who did not answer is asked last for so long. */
const SHUNNED_MS = 5_000;

export class ClusterPassages {
  readonly #deps: ClusterPassagesDeps;
  readonly #open = new Map<string, Watched>();
  readonly #failedAt = new Map<string, number>();
  #stopLooking: (() => void) | undefined;

  constructor(deps: ClusterPassagesDeps) {
    this.#deps = deps;
  }

  /** Who takes a connection that asks for that name; undefined = it is none of ours. */
  readonly passOn = (serverName: string): ((socket: Socket, first: Buffer) => void) | undefined => {
    const targets = this.#deps.targets(serverName);
    if (targets === undefined) return undefined;
    return (socket, first) => void this.#pass(socket, first, targets);
  };

  close(): void {
    this.#stopLooking?.();
    this.#stopLooking = undefined;
    for (const { clients } of this.#open.values()) for (const client of clients) client.destroy();
  }

  async #pass(client: Socket, first: Buffer, targets: readonly PassageTarget[]): Promise<void> {
    const now = this.#deps.clock.monotonic();
    const isShunned = (target: PassageTarget): boolean =>
      now - (this.#failedAt.get(keyOf(target)) ?? -SHUNNED_MS) < SHUNNED_MS;
    const order = targets.toSorted((a, b) => Number(isShunned(a)) - Number(isShunned(b)));
    for (const target of order) {
      if (client.destroyed) return;
      const answer = await this.#ask(target, first, client);
      if (answer === undefined) {
        this.#failedAt.set(keyOf(target), this.#deps.clock.monotonic());
        continue;
      }
      this.#failedAt.delete(keyOf(target));
      this.#join(client, answer, target);
      return;
    }
    client.destroy();
  }

  #join(
    client: Socket,
    { upstream, answer }: { readonly upstream: Socket; readonly answer: Buffer },
    target: PassageTarget,
  ): void {
    if (client.destroyed) {
      upstream.destroy();
      return;
    }
    const watched = this.#watched(target);
    watched.clients.add(client);
    client.once("close", () => {
      watched.clients.delete(client);
      upstream.destroy();
    });
    upstream.once("close", () => client.destroy());
    client.write(answer);
    client.pipe(upstream).pipe(client);
    this.#look();
  }

  #watched(target: PassageTarget): Watched {
    const known = this.#open.get(keyOf(target));
    if (known !== undefined) return known;
    const watched: Watched = { target, clients: new Set(), misses: 0 };
    this.#open.set(keyOf(target), watched);
    return watched;
  }

  /** Connected, told, and answered; undefined = not in time. */
  #ask(
    { host, port, isThere }: PassageTarget,
    first: Buffer,
    client: Socket,
  ): Promise<{ readonly upstream: Socket; readonly answer: Buffer } | undefined> {
    const { clock, connectMs = CONNECT_MS, answerMs = ANSWER_MS } = this.#deps;
    return new Promise((resolve) => {
      const patience = (ms: number) => clock.after(ms, () => upstream.destroy());
      const upstream = connect({ host, port, noDelay: true }, () => {
        giveUp();
        giveUp = patience(isThere === undefined ? answerMs : WAKE_MS);
        upstream.write(first);
      });
      let giveUp = patience(connectMs);
      const gone = (): void => void upstream.destroy();
      client.once("close", gone);
      upstream.once("data", (answer: Buffer) => {
        giveUp();
        upstream.pause();
        resolve({ upstream, answer });
      });
      upstream.on("error", () => upstream.destroy());
      upstream.once("close", () => {
        giveUp();
        client.off("close", gone);
        resolve(undefined); // of no meaning after an answer
      });
    });
  }

  /** A node that lost its power hangs up on nobody: who waits for it would wait for minutes. */
  #look(): void {
    const { clock, lookMs = LOOK_MS } = this.#deps;
    this.#stopLooking ??= clock.after(lookMs, () => {
      void Promise.all([...this.#open.values()].map((watched) => this.#probe(watched))).then(() => {
        this.#stopLooking = undefined;
        if (this.#open.size > 0) this.#look();
      });
    });
  }

  async #probe(watched: Watched): Promise<void> {
    const { target, clients } = watched;
    if (clients.size === 0) {
      this.#open.delete(keyOf(target));
      return;
    }
    const isThere = target.isThere?.() ?? (await this.#accepts(target));
    watched.misses = isThere ? 0 : watched.misses + 1;
    if (watched.misses < MOST_MISSES) return;
    this.#failedAt.set(keyOf(target), this.#deps.clock.monotonic());
    for (const client of clients) client.destroy();
  }

  #accepts(target: PassageTarget): Promise<boolean> {
    const { clock, serves, answerMs = ANSWER_MS } = this.#deps;
    if (serves !== undefined) return serves(target);
    const { host, port } = target;
    return new Promise((resolve) => {
      const socket = connect({ host, port });
      const giveUp = clock.after(answerMs, () => socket.destroy());
      socket.once("connect", () => {
        resolve(true);
        socket.destroy();
      });
      socket.on("error", () => socket.destroy());
      socket.once("close", () => {
        giveUp();
        resolve(false); // of no meaning after it was accepted
      });
    });
  }
}

function keyOf({ host, port }: PassageTarget): string {
  return `${host}:${port}`;
}
