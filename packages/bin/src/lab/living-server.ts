// An address that follows a living server: every connection goes, byte by byte, to a server that answers. A server counts
// as living while it answers requests: one that is frozen or cut off still has an open port.
import { request, Agent } from "node:https";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { AppError } from "@gpve/contracts/errors.ts";
import type { ListenAddress } from "../commands/options.ts";

const PROBE_EVERY_MS = 500;
const PROBE_TIMEOUT_MS = 1_500;
/** To accept a connection and say its first word. */
const ANSWER_TIMEOUT_MS = 2_000;

export interface Backend {
  readonly host: string;
  readonly port: number;
}

export interface LivingServer {
  readonly port: number;
  close(): Promise<void>;
}

interface Watched {
  readonly backend: Backend;
  readonly sockets: Set<Socket>;
  lives: boolean;
  /** When it last answered, and since when it has not; monotonic. */
  livedAt: number;
  deadSince: number;
}

export interface LivingServerOptions {
  readonly listen: ListenAddress;
  readonly backends: readonly Backend[];
  /** Whether it answers now. */
  readonly probe: (backend: Backend) => Promise<boolean>;
  readonly probeEveryMs?: number;
}

export async function followLivingServer(options: LivingServerOptions): Promise<LivingServer> {
  const watched = options.backends.map((backend): Watched => ({
    backend,
    sockets: new Set(),
    lives: true,
    livedAt: 0,
    deadSince: 0,
  }));
  const stop = new AbortController();
  const watching = watched.map((one) => watch(one, watched, options, stop.signal));
  const clients = new Set<Socket>();
  const server = createServer({ pauseOnConnect: true }, (client) => {
    clients.add(client);
    client.once("close", () => clients.delete(client));
    client.on("error", () => client.destroy());
    void forward(client, watched);
  });
  await listening(server, options.listen);
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      stop.abort();
      for (const client of clients) client.destroy();
      await new Promise((resolve) => server.close(resolve));
      await Promise.all(watching);
    },
  };
}

/** Asks without a login, which is refused from memory: that there is an answer is all that counts. */
export function httpsProbe(ca: () => string): {
  probe: (backend: Backend) => Promise<boolean>;
  close(): void;
} {
  const agent = new Agent({ keepAlive: true, ca: ca() });
  const probe = ({ host, port }: Backend): Promise<boolean> =>
    new Promise((resolve) => {
      const path = "/api2/json/version";
      const asked = request({ host, port, path, agent, timeout: PROBE_TIMEOUT_MS }, (answer) => {
        answer.resume();
        resolve(true);
      });
      const late = setTimeout(() => asked.destroy(), PROBE_TIMEOUT_MS);
      asked.once("close", () => {
        clearTimeout(late);
        resolve(false); // of no meaning after an answer
      });
      asked.once("error", () => resolve(false));
      asked.end();
    });
  return { probe, close: () => agent.destroy() };
}

async function watch(
  one: Watched,
  watched: readonly Watched[],
  options: LivingServerOptions,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const begun = performance.now();
    const answered = await options.probe(one.backend);
    if (answered) one.livedAt = performance.now();
    else if (one.lives) one.deadSince = begun;
    one.lives = answered;
    // Whoever waits for it would wait until it is back: better to ask again, and reach one that has answered meanwhile.
    if (!answered && watched.some(({ livedAt }) => livedAt > one.deadSince))
      for (const socket of one.sockets) socket.destroy();
    await new Promise<void>((resolve) => {
      const timer = setTimeout(done, options.probeEveryMs ?? PROBE_EVERY_MS);
      signal.addEventListener("abort", done, { once: true });
      function done(): void {
        clearTimeout(timer);
        signal.removeEventListener("abort", done);
        resolve();
      }
    });
  }
}

/** A client speaks first. Until a server has answered, its words can go to another one. */
async function forward(client: Socket, watched: readonly Watched[]): Promise<void> {
  const said = await firstWords(client);
  if (said === undefined) return;
  const order = watched.toSorted((a, b) => Number(b.lives) - Number(a.lives));
  for (const one of order) {
    const answer = await ask(one.backend, said);
    if (answer === undefined) continue;
    const { upstream, first } = answer;
    if (client.destroyed) {
      upstream.destroy();
      return;
    }
    one.sockets.add(client);
    client.once("close", () => {
      one.sockets.delete(client);
      upstream.destroy();
    });
    upstream.once("close", () => client.destroy());
    client.write(first);
    client.pipe(upstream).pipe(client);
    return;
  }
  client.destroy();
}

function firstWords(client: Socket): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    client.once("data", (chunk: Buffer) => {
      client.pause();
      resolve(chunk);
    });
    client.once("close", () => resolve(undefined));
    client.resume();
  });
}

/** Connected, told, and answered; undefined = not in time. */
function ask(
  { host, port }: Backend,
  said: Buffer,
): Promise<{ readonly upstream: Socket; readonly first: Buffer } | undefined> {
  return new Promise((resolve) => {
    const upstream = connect({ host, port, noDelay: true }, () => upstream.write(said));
    const timer = setTimeout(() => upstream.destroy(), ANSWER_TIMEOUT_MS);
    upstream.once("data", (first: Buffer) => {
      clearTimeout(timer);
      upstream.pause();
      resolve({ upstream, first });
    });
    upstream.on("error", () => upstream.destroy());
    upstream.once("close", () => {
      clearTimeout(timer);
      resolve(undefined); // of no meaning after an answer
    });
  });
}

function listening(server: Server, { host, port }: ListenAddress): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause) =>
      reject(
        new AppError(
          "config.invalid",
          `cannot listen on ${host}:${port}: ${cause.message}; choose another --listen`,
          {
            cause,
          },
        ),
      ),
    );
    server.listen({ host, port }, resolve);
  });
}
