// Where lines of other nodes' stores arrive: one port for all, and a secret for each, which says to whose standby it leads.
import type { AddressInfo, Socket } from "node:net";
import { createServer, type Server, type TLSSocket } from "node:tls";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { type StrangerLimits, Strangers } from "@gpve/kit/net/strangers.ts";
import { connectEnd } from "./line-end.ts";
import { keepLive, LINE_TLS, secretBytes } from "./line-tls.ts";
import type { PlaceWords } from "./line-messages.ts";
import { writeLine } from "../../move/move-wire.ts";

/** Anybody may knock at that port. Whoever knows a secret has shown it at once. */
const LIMITS: StrangerLimits = { perAddress: 256, inAll: 1024, graceMs: 1_000, handshakeMs: 10_000 };

interface Place {
  readonly secret: Buffer;
  readonly path: string;
  readonly open: Set<TLSSocket>;
}

export class LinePlaces {
  readonly #places = new Map<string, Place>();
  /** By the address of this host. */
  readonly #servers = new Map<string, Promise<Server>>();
  readonly #asked = new WeakMap<TLSSocket, string>();
  readonly #strangers: Strangers;

  constructor(clock: Clock) {
    this.#strangers = new Strangers({ limits: LIMITS, clock });
  }

  /** Resolves to the port. */
  async listen({ id, address, secret, path }: PlaceWords): Promise<number> {
    const listening = this.#servers.get(address) ?? this.#begin(address);
    this.#servers.set(address, listening);
    const server = await listening.catch((err: unknown) => {
      this.#servers.delete(address);
      throw err;
    });
    // Whoever knows the former secret has the line open: it ends when the next one comes, and not before.
    const open = this.#places.get(id)?.open ?? new Set<TLSSocket>();
    this.#places.set(id, { secret: secretBytes(secret), path, open });
    return (server.address() as AddressInfo).port;
  }

  keep(ids: readonly string[]): void {
    const kept = new Set(ids);
    for (const [id, { open }] of this.#places) {
      if (kept.has(id)) continue;
      this.#places.delete(id);
      for (const socket of open) socket.destroy();
    }
  }

  close(): void {
    this.keep([]);
    this.#strangers.close();
    for (const listening of this.#servers.values())
      void listening.then(
        (server) => server.close(),
        () => undefined,
      );
    this.#servers.clear();
  }

  #begin(address: string): Promise<Server> {
    const server = createServer(
      {
        ...LINE_TLS,
        pskCallback: (socket, id) => {
          this.#asked.set(socket, id);
          return this.#places.get(id)?.secret ?? null;
        },
      },
      (socket) => {
        this.#strangers.proven(socket);
        this.#take(socket);
      },
    );
    server.on("connection", (socket: Socket) => this.#strangers.admit(socket));
    // Whoever knows no secret has said nothing that anybody wants to hear of.
    server.on("tlsClientError", (_err, socket) => socket.destroy());
    return new Promise((resolve, reject) => {
      server.on("error", (err) => {
        reject(err);
        ignore(err, "where it listens already, the next one may be taken");
      });
      server.listen({ host: address, port: 0 }, () => resolve(server));
    });
  }

  #take(socket: TLSSocket): void {
    const place = this.#places.get(this.#asked.get(socket) ?? "");
    socket.on("error", () => socket.destroy());
    if (place === undefined) return void socket.destroy();
    keepLive(socket);
    place.open.add(socket);
    socket.once("close", () => place.open.delete(socket));
    const standby = connectEnd(place.path);
    let isLed = false;
    standby.once("error", () => {
      if (isLed || socket.destroyed) return;
      // Of a standby that is only being opened: it is tried again.
      writeLine(socket, { ok: false });
      socket.end();
    });
    standby.once("close", () => void (socket.writableEnded || socket.destroy()));
    socket.once("close", () => standby.destroy());
    standby.once("connect", () => {
      isLed = true;
      for (const other of place.open) if (other !== socket) other.destroy();
      writeLine(socket, { ok: true });
      socket.pipe(standby).pipe(socket);
    });
  }
}
