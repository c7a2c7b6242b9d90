// The way in to the virtual clusters of a node: bytes are passed on as they come, so TLS ends in the cluster itself. Who
// connects to a cluster that sleeps waits, unread, until it is awake: the first one has it woken. Who asks for a cluster that
// another node has is passed on to the proxy there, which is told the name first and never passes him on again.
import { connect, createServer, type Server, type Socket } from "node:net";
import { given } from "@gpve/contracts/given.ts";
import type { FrontActivity, FrontMode, FrontRoute } from "@gpve/domain/vcluster/cluster-front.ts";
import type { ElsewhereRoute } from "@gpve/domain/vcluster/cluster-places.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { peekConnection } from "@gpve/kit/net/client-hello.ts";
import { passedOnName, passOnWords } from "./pass-on.ts";

export interface EndpointProxyDeps {
  readonly clock: Clock;
  /** Somebody waits for that cluster. */
  readonly wake: (name: string) => void;
  readonly say: (line: string) => void;
  /** How long somebody waits for a cluster to wake. */
  readonly holdMs?: number;
  /** How long those wait who would not wait much longer by themselves. */
  readonly hastyMs?: number;
  /** How many wait for one cluster; who comes then is refused. */
  readonly mostHeld?: number;
}

/** Of a cluster here, or of one that another node has. */
interface Route extends Omit<FrontRoute, "port"> {
  readonly port?: number | undefined;
  /** What the proxy there is told first. */
  readonly words?: string;
}

interface Way {
  route: Route;
  readonly held: Set<Held>;
  readonly open: Set<Socket>;
  server: Server | undefined;
  lastAt: number;
  trouble: string | undefined;
}

interface Held {
  readonly socket: Socket;
  /** What was read of it already. */
  first: Buffer;
  readonly giveUp: () => void;
  /** Reads no more of it. */
  leave: () => void;
}

const HOLD_MS = 120_000;
/** kubectl and whatever else is of Go gives a handshake ten seconds and no more; cut off before, it asks again by itself. */
const HASTY_MS = 8_000;
const MOST_HELD = 4_096;
const LISTEN_AGAIN_MS = 2_000;
const HELLO_MS = 10_000;

export class EndpointProxy {
  readonly #deps: EndpointProxyDeps;
  /** By the name that clients ask for: it stays when a cluster goes to another node. */
  readonly #ways = new Map<string, Way>();
  #elsewhere: readonly ElsewhereRoute[] = [];
  #shared: Server | undefined;
  #host = "";
  #isClosed = false;

  constructor(deps: EndpointProxyDeps) {
    this.#deps = deps;
  }

  /** From now on there are these and no others; resolves when those that can listen do. */
  async show(
    host: string,
    own: readonly FrontRoute[],
    {
      sharedPort,
      elsewhere,
    }: {
      readonly sharedPort?: number | undefined;
      readonly elsewhere?: readonly ElsewhereRoute[] | undefined;
    } = {},
  ): Promise<void> {
    this.#host = host;
    this.#elsewhere = elsewhere ?? this.#elsewhere;
    // What is here is here, whatever was told of other nodes before.
    const routes = new Map<string, Route>([
      ...this.#elsewhere.map((each): [string, Route] => [each.serverName, passingRoute(each)]),
      ...own.map((route): [string, Route] => [keyOf(route), route]),
    ]);
    for (const [key, way] of this.#ways) if (!routes.has(key)) this.#drop(key, way);
    await Promise.all([...routes].map(([key, route]) => this.#set(key, route)));
    if (sharedPort !== undefined && this.#shared === undefined && routes.size > 0)
      this.#shared = await this.#listenShared(sharedPort);
  }

  seen(): Record<string, FrontActivity> {
    return Object.fromEntries(
      this.#own().map(({ route, lastAt, open, held, trouble }) => [
        route.name,
        { lastAt, connections: open.size, held: held.size, ...given({ trouble }) },
      ]),
    );
  }

  /** Those that somebody waits for. */
  wanted(): readonly string[] {
    return this.#own().flatMap(({ route, held }) => (held.size > 0 ? [route.name] : []));
  }

  refuse(name: string): void {
    for (const way of this.#own())
      if (way.route.name === name) for (const held of way.held) this.#release(way, held)?.destroy();
  }

  close(): void {
    this.#isClosed = true;
    for (const [key, way] of this.#ways) this.#drop(key, way);
    this.#shared?.close();
  }

  #own(): readonly Way[] {
    return [...this.#ways.values()].filter(({ route }) => route.words === undefined);
  }

  async #set(key: string, route: Route): Promise<void> {
    let way = this.#ways.get(key);
    if (way === undefined || way.route.port !== route.port) {
      if (way !== undefined) this.#drop(key, way);
      way = { route, held: new Set(), open: new Set(), server: undefined, lastAt: 0, trouble: undefined };
      this.#ways.set(key, way);
      if (route.port !== undefined) way.server = await this.#listen(key, way, route.port);
    }
    const before: FrontMode = way.route.mode;
    way.route = route;
    if (route.mode === "open") for (const held of way.held) this.#letThrough(way, held);
    if (route.mode === "closed") for (const held of way.held) this.#release(way, held)?.destroy();
    if (route.mode === "hold" && before !== "hold" && way.held.size > 0) this.#deps.wake(route.name);
  }

  #drop(key: string, way: Way): void {
    this.#ways.delete(key);
    way.server?.close();
    for (const held of way.held) this.#release(way, held)?.destroy();
    for (const socket of way.open) socket.destroy();
  }

  #listen(key: string, way: Way, port: number): Promise<Server | undefined> {
    const server = createServer({ pauseOnConnect: true, allowHalfOpen: true }, (socket) =>
      this.#take(way, socket, Buffer.alloc(0)),
    );
    return this.#bound(server, port, (why) => {
      way.trouble = why;
      this.#deps.clock.after(LISTEN_AGAIN_MS, () => {
        if (this.#ways.get(key) !== way || this.#isClosed) return;
        void this.#listen(key, way, port).then((again) => {
          if (again === undefined) return;
          if (this.#ways.get(key) === way) {
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
      const passedOn = passedOnName(read);
      if (passedOn === "incomplete") return;
      const serverName = passedOn === undefined ? namedIn(read) : passedOn.serverName;
      if (serverName === undefined) return;
      giveUp();
      socket.off("data", take);
      socket.pause();
      const ways = passedOn === undefined ? [...this.#ways.values()] : this.#own();
      const way = ways.find(({ route }) => route.serverNames.includes(serverName));
      if (way === undefined) socket.destroy();
      else this.#take(way, socket, passedOn?.rest ?? read);
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
    const held: Held = { socket, first, giveUp, leave: () => undefined };
    way.held.add(held);
    this.#heedHaste(way, held);
    socket.once("close", () => this.#release(way, held));
    // The first one wakes it; the others wait with him.
    if (way.held.size === 1) this.#deps.wake(name);
  }

  /** Who offers HTTP/2 may be in haste; everybody else waits as long as he likes. */
  #heedHaste(way: Way, held: Held): void {
    const { socket } = held;
    const cutOff = this.#deps.clock.after(this.#deps.hastyMs ?? HASTY_MS, () => {
      const peeked = peekConnection(held.first);
      if (peeked.kind === "tls" && peeked.alpn.includes("h2")) this.#release(way, held)?.destroy();
    });
    const stop = (): void => {
      socket.off("data", take);
      socket.pause();
    };
    const take = (chunk: Buffer): void => {
      held.first = Buffer.concat([held.first, chunk]);
      if (peekConnection(held.first).kind !== "more") stop();
    };
    held.leave = () => {
      cutOff();
      stop();
    };
    if (peekConnection(held.first).kind !== "more") return;
    socket.on("data", take);
    socket.resume();
  }

  #release(way: Way, held: Held): Socket | undefined {
    held.giveUp();
    held.leave();
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
    const { target, words } = way.route;
    const server = connect({ ...target, allowHalfOpen: true, noDelay: true });
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
      if (words !== undefined) server.write(words);
      if (first.length > 0) server.write(first);
      client.on("data", used);
      server.on("data", used);
      client.pipe(server);
      server.pipe(client);
    });
  }
}

/** "" = no TLS, or a client that names no server; undefined = that is still to come. */
function namedIn(bytes: Buffer): string | undefined {
  const peek = peekConnection(bytes);
  if (peek.kind === "more") return undefined;
  return peek.kind === "tls" ? peek.serverName : "";
}

function keyOf({ name, serverNames }: FrontRoute): string {
  return serverNames[0] ?? name;
}

function passingRoute({ serverName, port, target }: ElsewhereRoute): Route {
  const words = passOnWords(serverName);
  return { name: serverName, serverNames: [serverName], target, mode: "open", port, words };
}
