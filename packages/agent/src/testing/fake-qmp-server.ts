// A QMP monitor on a unix socket that answers as told: by default as QEMU does, on request badly.
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface FakeCommand {
  readonly execute: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  readonly id: unknown;
}

/** A value is the result; `FakeRefusal` an error; `NO_ANSWER` silence. */
export type FakeAnswer = (command: FakeCommand, server: FakeQmpServer) => unknown;

export const NO_ANSWER = Symbol("no answer");

export class FakeRefusal {
  readonly errorClass: string;
  readonly desc: string;

  constructor(desc: string, errorClass = "GenericError") {
    this.desc = desc;
    this.errorClass = errorClass;
  }
}

export class FakeQmpServer {
  readonly path: string;
  readonly received: FakeCommand[] = [];
  /** How often something arrived. */
  chunks = 0;
  greets = true;
  readonly #folder: string;
  readonly #answers = new Map<string, FakeAnswer>();
  readonly #clients = new Set<Socket>();
  #server: Server | undefined;

  constructor() {
    this.#folder = mkdtempSync(join(tmpdir(), "gpve-qmp-"));
    this.path = join(this.#folder, "qmp.sock");
    this.answer("qmp_capabilities", () => ({}));
  }

  static async start(): Promise<FakeQmpServer> {
    const server = new FakeQmpServer();
    await server.listen();
    return server;
  }

  answer(command: string, answer: FakeAnswer): this {
    this.#answers.set(command, answer);
    return this;
  }

  async listen(): Promise<void> {
    const server = createServer((socket) => this.#serve(socket));
    this.#server = server;
    await new Promise<void>((resolve) => {
      server.listen(this.path, resolve);
    });
  }

  event(name: string, data: Readonly<Record<string, unknown>> = {}): void {
    this.send(`${JSON.stringify({ event: name, data, timestamp: { seconds: 5, microseconds: 2_000 } })}\n`);
  }

  /** Any bytes to every client. */
  send(bytes: string | Uint8Array): void {
    for (const client of this.#clients) client.write(bytes);
  }

  /** Ends connections; the monitor goes on listening. */
  dropClients(): void {
    for (const client of this.#clients) client.destroy();
  }

  get clientCount(): number {
    return this.#clients.size;
  }

  /** As if QEMU died. */
  async stop(): Promise<void> {
    this.dropClients();
    const server = this.#server;
    this.#server = undefined;
    if (server !== undefined)
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
      });
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #serve(socket: Socket): void {
    this.#clients.add(socket);
    socket.on("close", () => this.#clients.delete(socket));
    socket.on("error", () => socket.destroy());
    if (this.greets)
      socket.write(
        `${JSON.stringify({ QMP: { version: { qemu: { major: 7, minor: 2, micro: 22 }, package: "Fake" }, capabilities: ["oob"] } })}\r\n`,
      );
    let text = "";
    socket.on("data", (chunk: Buffer) => {
      this.chunks++;
      const lines = (text + chunk.toString("utf8")).split("\n");
      text = lines.pop() ?? "";
      for (const line of lines) this.#run(socket, line);
    });
  }

  #run(socket: Socket, line: string): void {
    const message = JSON.parse(line) as {
      execute: string;
      arguments?: Readonly<Record<string, unknown>>;
      id: unknown;
    };
    const command: FakeCommand = { ...message, arguments: message.arguments ?? {} };
    this.received.push(command);
    const answer = this.#answers.get(command.execute);
    const value =
      answer === undefined
        ? new FakeRefusal(`The command ${command.execute} has not been found`, "CommandNotFound")
        : answer(command, this);
    if (value === NO_ANSWER) return;
    const reply =
      value instanceof FakeRefusal
        ? { error: { class: value.errorClass, desc: value.desc }, id: command.id }
        : { return: value, id: command.id };
    socket.write(`${JSON.stringify(reply)}\r\n`);
  }
}
