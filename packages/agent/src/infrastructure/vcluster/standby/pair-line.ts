// What two members of an etcd say to each other, over the one line that their nodes have: HTTP/2, in which each of their connections
// is a stream. The node with the control plane opens all streams; some of them wait until the other member has something to say.
//
//   /hello   what the standby is to know, and whether it is there
//   /in      a connection to the standby's member
//   /out     waits to be a connection from it
import { connect, createServer, type ClientHttp2Session, type ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { isMemberName } from "@gpve/domain/vcluster/standby/etcd-pair.ts";
import { parseBoundedJson } from "@gpve/kit/bounded-json.ts";
import { ignore } from "@gpve/kit/background.ts";
import { join } from "../../move/move-wire.ts";

/** What is said to the standby again and again. */
export interface PairHello {
  readonly generation: number;
  /** What the standby's member is to that of the control plane. */
  readonly is: "nothing yet" | "learner" | "voter";
  /** The name of the control plane's member. */
  readonly leader: string;
  /** That member, where it is to lead and does not. */
  readonly leadId?: string;
}

const HELLO = "gpve-hello";
/** etcd opens a few at once when it comes up, and keeps two. */
const WAITING = 6;
const ANSWER_MS = 3_000;
/** Of each stream: a database goes over it when a standby begins. */
const WINDOW_BYTES = 4 * 1024 * 1024;
const SETTINGS = { initialWindowSize: WINDOW_BYTES, enablePush: false } as const;

/** The end at the control plane. */
export class LeadLine {
  readonly #session: ClientHttp2Session;
  readonly #connectOwn: () => Promise<Duplex>;
  readonly closed: Promise<void>;

  constructor(line: Socket, connectOwn: () => Promise<Duplex>) {
    this.#connectOwn = connectOwn;
    this.#session = connect("http://standby", { createConnection: () => line, settings: SETTINGS });
    this.#session.on("error", (err) => ignore(err, "the line is opened again"));
    this.#session.on("connect", () => this.#session.setLocalWindowSize(4 * WINDOW_BYTES));
    this.closed = new Promise((resolve) => this.#session.once("close", resolve));
    for (let at = 0; at < WAITING; at++) this.#wait();
  }

  get isOpen(): boolean {
    return !this.#session.closed && !this.#session.destroyed;
  }

  /** Whether the other end has a standby of that generation, and does as it was told. */
  hello(words: PairHello): Promise<boolean> {
    if (!this.isOpen) return Promise.resolve(false);
    return new Promise((resolve) => {
      const said = { ":path": "/hello", [HELLO]: JSON.stringify(words) };
      const stream = this.#session.request(said, { signal: AbortSignal.timeout(ANSWER_MS) });
      let isTaken = false;
      stream.on("response", (headers) => (isTaken = headers[":status"] === 200));
      stream.on("error", (err) => ignore(err, "it is asked again"));
      stream.on("close", () => resolve(isTaken));
      stream.resume();
      stream.end();
    });
  }

  /** A connection of this node's member. */
  carry(socket: Socket): void {
    if (!this.isOpen) return void socket.destroy();
    join(socket, this.#session.request({ ":method": "POST", ":path": "/in" }));
  }

  close(): void {
    this.#session.destroy();
  }

  #wait(): void {
    if (!this.isOpen) return;
    const stream = this.#session.request({ ":method": "POST", ":path": "/out" });
    stream.on("error", (err) => ignore(err, "members connect again"));
    let isUsed = false;
    stream.on("response", () => {
      isUsed = true;
      this.#wait();
      this.#connectOwn().then(
        (own) => join(own, stream),
        (err: unknown) => {
          ignore(err, "the member does not run now");
          stream.close();
        },
      );
    });
    stream.on("close", () => {
      if (!isUsed) this.#wait();
    });
  }
}

export interface FollowLineDeps {
  /** Throws or answers false where it cannot be done. */
  readonly hello: (words: PairHello) => Promise<boolean>;
  readonly connectOwn: () => Promise<Duplex>;
}

/** The end at the standby. */
export class FollowLine {
  readonly #deps: FollowLineDeps;
  readonly #line: Socket;
  readonly #waiting: ServerHttp2Stream[] = [];
  readonly closed: Promise<void>;

  constructor(line: Socket, deps: FollowLineDeps) {
    this.#deps = deps;
    this.#line = line;
    this.closed = new Promise((resolve) => line.once("close", () => resolve()));
    const server = createServer({ settings: SETTINGS });
    server.on("session", (session) => {
      session.on("error", (err) => ignore(err, "the line is opened again"));
      session.setLocalWindowSize(4 * WINDOW_BYTES);
    });
    server.on("stream", (stream, headers) => {
      stream.on("error", (err) => ignore(err, "members connect again"));
      const path = headers[":path"];
      if (path === "/hello") this.#hello(stream, String(headers[HELLO]));
      else if (path === "/in") this.#come(stream);
      else this.#waiting.push(stream);
    });
    server.emit("connection", line);
  }

  /** A connection of this node's member. */
  carry(socket: Socket): void {
    const stream = this.#next();
    if (stream === undefined) return void socket.destroy();
    stream.respond({ ":status": 200 });
    join(socket, stream);
  }

  close(): void {
    this.#line.destroy();
  }

  #next(): ServerHttp2Stream | undefined {
    for (;;) {
      const stream = this.#waiting.shift();
      if (stream === undefined || !(stream.destroyed || stream.closed)) return stream;
    }
  }

  #hello(stream: ServerHttp2Stream, text: string): void {
    const said = readHello(text);
    const done = said === undefined ? Promise.resolve(false) : this.#deps.hello(said);
    done
      .catch((err: unknown) => {
        ignore(err, "told by whoever does it");
        return false;
      })
      .then((isDone) => {
        if (stream.destroyed || stream.closed) return;
        stream.respond({ ":status": isDone ? 200 : 409 }, { endStream: true });
      })
      .catch((err: unknown) => ignore(err, "it is asked again"));
  }

  #come(stream: ServerHttp2Stream): void {
    this.#deps.connectOwn().then(
      (own) => {
        if (stream.destroyed || stream.closed) return void own.destroy();
        stream.respond({ ":status": 200 });
        join(own, stream);
      },
      (err: unknown) => {
        ignore(err, "the member does not run now");
        stream.close();
      },
    );
  }
}

function readHello(text: string): PairHello | undefined {
  let said: Partial<PairHello>;
  try {
    said = (parseBoundedJson(text) ?? {}) as Partial<PairHello>;
  } catch (err) {
    ignore(err, "whoever says that is not understood");
    return undefined;
  }
  const { generation, is, leader, leadId } = said;
  if (typeof generation !== "number" || (is !== "nothing yet" && is !== "learner" && is !== "voter"))
    return undefined;
  // It becomes the name of a socket.
  if (typeof leader !== "string" || !isMemberName(leader)) return undefined;
  const isId = typeof leadId === "string" && /^\d{1,20}$/.test(leadId);
  return { generation, is, leader, ...(isId ? { leadId } : {}) };
}
