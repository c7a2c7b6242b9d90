// The way in to the virtual clusters of a node: bytes are passed on as they come, so TLS ends in the cluster itself. Who
// connects to a cluster that sleeps waits, unread, until it is awake: the first one has it woken.
import { connect, createServer, type Server, type Socket } from "node:net";
import { given } from "@gpve/contracts/given.ts";
import type { FrontActivity, FrontMode, FrontRoute } from "@gpve/domain/vcluster/cluster-front.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { peekServerName } from "./client-hello.ts";

export interface EndpointProxyDeps {
  readonly clock: Clock;
  /** Somebody waits for that cluster. */
  readonly wake: (name: string) => void;
  readonly say: (line: string) => void;
  /** How long somebody waits for a cluster to wake. */
  readonly holdMs?: number;
  /** How many wait for one cluster; who comes then is refused. */
  readonly mostHeld?: number;
}

interface Way {
  route: FrontRoute;
  readonly held: Set<Held>;
  readonly open: Set<Socket>;
  server: Server | undefined;
  lastAt: number;
  trouble: string | undefined;
}

interface Held {
  readonly socket: Socket;
  /** What was read of it already. */
  readonly first: Buffer;
  readonly giveUp: () => void;
}

const HOLD_MS = 120_000;
const MOST_HELD = 4_096;
const LISTEN_AGAIN_MS = 2_000;
const HELLO_MS = 10_000;

export class EndpointProxy {
  readonly #deps: EndpointProxyDeps;
  readonly #ways = new Map<string, Way>();
  #shared: Server | undefined;
  #host = "";
  #isClosed = false;

  constructor(deps: EndpointProxyDeps) {
    this.#deps = deps;
  }

  /** From now on there are these and no others; resolves when those that can listen do. */
  async show(host: string, routes: readonly FrontRoute[], sharedPort?: number): Promise<void> {
    this.#host = host;
    const names = new Set(routes.map(({ name }) => name));
    for (const [name, way] of this.#ways) if (!names.has(name)) this.#drop(name, way);
    await Promise.all(routes.map((route) => this.#set(route)));
    if (sharedPort !== undefined && this.#shared === undefined && routes.length > 0)
      this.#shared = await this.#listenShared(sharedPort);
  }

  seen(): Record<string, FrontActivity> {
    return Object.fromEntries(
      [...this.#ways].map(([name, { lastAt, open, held, trouble }]) => [
        name,
        { lastAt, connections: open.size, held: held.size, ...given({ trouble }) },
      ]),
    );
  }

  /** Those that somebody waits for. */
  wanted(): readonly string[] {
    return [...this.#ways].flatMap(([name, { held }]) => (held.size > 0 ? [name] : []));
  }

  refuse(name: string): void {
    const way = this.#ways.get(name);
    for (const held of way?.held ?? []) this.#release(way as Way, held)?.destroy();
  }

  close(): void {
    this.#isClosed = true;
    for (const [name, way] of this.#ways) this.#drop(name, way);
    this.#shared?.close();
  }

  async #set(route: FrontRoute): Promise<void> {
    let way = this.#ways.get(route.name);
    if (way === undefined || way.route.port !== route.port) {
      if (way !== undefined) this.#drop(route.name, way);
      way = { route, held: new Set(), open: new Set(), server: undefined, lastAt: 0, trouble: undefined };
      this.#ways.set(route.name, way);
      way.server = await this.#listen(way);
    }
    const before: FrontMode = way.route.mode;
    way.route = route;
    if (route.mode === "open") for (const held of way.held) this.#letThrough(way, held);
    if (route.mode === "closed") this.refuse(route.name);
    if (route.mode === "hold" && before !== "hold" && way.held.size > 0) this.#deps.wake(route.name);
  }

  #drop(name: string, way: Way): void {
    this.#ways.delete(name);
    way.server?.close();
    for (const held of way.held) this.#release(way, held)?.destroy();
    for (const socket of way.open) socket.destroy();
  }

  #listen(way: Way): Promise<Server | undefined> {
    const { name, port } = way.route;
    const server = createServer({ pauseOnConnect: true, allowHalfOpen: true }, (socket) =>
      this.#take(way, socket, Buffer.alloc(0)),
    );
    return this.#bound(server, port, (why) => {
      way.trouble = why;
      this.#deps.clock.after(LISTEN_AGAIN_MS, () => {
        if (this.#ways.get(name) !== way || this.#isClosed) return;
        void this.#listen(way).then((again) => {
          if (again === undefined) return;
          if (this.#ways.get(name) === way) {
            way.server = again;
            way.trouble = undefined;
          } else again.close();
        });
      });
    });
  }

  #listenShared(port: number): Promise<Server | undefined> {
    const server = createServer({ allowHalfOpen: true }, (socket) => this.#askName(socket));
    return this.#bound(server, port, () => undefined);
  }

  #bound(server: Server, port: number, onTrouble: (why: string) => void): Promise<Server | undefined> {
    return new Promise((resolve) => {
      server.once("error", (err) => {
        const why = `cannot listen on ${this.#host}:${port}: ${err.message}`;
        this.#deps.say(why);
        onTrouble(why);
        resolve(undefined);
      });
      server.listen({ host: this.#host, port, backlog: 1_024 }, () => resolve(server));
    });
  }

  /** At the port of all: the name in its first message says which it wants. */
  #askName(socket: Socket): void {
    let read = Buffer.alloc(0);
    const giveUp = this.#deps.clock.after(HELLO_MS, () => socket.destroy());
    socket.on("error", () => socket.destroy());
    const take = (chunk: Buffer): void => {
      read = Buffer.concat([read, chunk]);
      const peeked = peekServerName(read);
      if (peeked === "incomplete") return;
      giveUp();
      socket.off("data", take);
      socket.pause();
      const way =
        peeked === "none"
          ? undefined
          : [...this.#ways.values()].find(({ route }) => route.serverNames.includes(peeked.serverName));
      if (way === undefined) socket.destroy();
      else this.#take(way, socket, read);
    };
    socket.on("data", take);
    socket.once("close", giveUp);
  }

  #take(way: Way, socket: Socket, first: Buffer): void {
    socket.on("error", () => socket.destroy());
    const { mode, name } = way.route;
    if (mode === "open") {
      this.#join(way, socket, first);
      return;
    }
    if (mode === "closed" || way.held.size >= (this.#deps.mostHeld ?? MOST_HELD)) {
      socket.destroy();
      return;
    }
    const giveUp = this.#deps.clock.after(this.#deps.holdMs ?? HOLD_MS, () =>
      this.#release(way, held)?.destroy(),
    );
    const held: Held = { socket, first, giveUp };
    way.held.add(held);
    socket.once("close", () => this.#release(way, held));
    // The first one wakes it; the others wait with him.
    if (way.held.size === 1) this.#deps.wake(name);
  }

  #release(way: Way, held: Held): Socket | undefined {
    held.giveUp();
    return way.held.delete(held) ? held.socket : undefined;
  }

  #letThrough(way: Way, held: Held): void {
    const socket = this.#release(way, held);
    if (socket !== undefined && !socket.destroyed) this.#join(way, socket, held.first);
  }

  #join(way: Way, client: Socket, first: Buffer): void {
    const { clock } = this.#deps;
    const used = (): void => {
      way.lastAt = clock.now();
    };
    used();
    way.open.add(client);
    const server = connect({ ...way.route.target, allowHalfOpen: true, noDelay: true });
    client.setNoDelay(true);
    const end = (): void => {
      way.open.delete(client);
      client.destroy();
      server.destroy();
    };
    server.on("error", end);
    server.once("close", end);
    client.once("close", end);
    server.once("connect", () => {
      if (first.length > 0) server.write(first);
      client.on("data", used);
      server.on("data", used);
      client.pipe(server);
      server.pipe(client);
    });
  }
}
