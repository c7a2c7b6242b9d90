// A guest agent on a unix socket, as the guest's side of the channel: it has no greeting, keeps no connections apart
// and answers in order.
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export type FakeAgentAnswer = (args: Readonly<Record<string, unknown>>) => unknown;

export class FakeGuestAgent {
  readonly path: string;
  readonly commands: string[] = [];
  /** false = the channel is there but nobody answers. */
  running = true;
  /** Commands that get no answer until `release`. */
  readonly held = new Set<string>();
  readonly answers = new Map<string, FakeAgentAnswer>([["guest-ping", () => ({})]]);
  readonly #folder = mkdtempSync(join(tmpdir(), "gpve-qga-"));
  readonly #server: Server;
  #client: Socket | undefined;
  readonly #late: string[] = [];

  private constructor() {
    this.path = join(this.#folder, "qga.sock");
    this.#server = createServer((socket) => {
      this.#client = socket;
      socket.on("error", () => socket.destroy());
      let text = "";
      socket.on("data", (chunk: Buffer) => {
        const lines = (text + chunk.toString("latin1").replaceAll("\u00ff", "")).split("\n");
        text = lines.pop() ?? "";
        for (const line of lines) this.#run(line);
      });
    });
  }

  static async start(): Promise<FakeGuestAgent> {
    const agent = new FakeGuestAgent();
    await new Promise<void>((resolve) => agent.#server.listen(agent.path, resolve));
    return agent;
  }

  send(bytes: string | Uint8Array): void {
    this.#client?.write(bytes);
  }

  /** Sends the answers that were held back. */
  release(): void {
    for (const line of this.#late.splice(0)) this.send(line);
  }

  drop(): void {
    this.#client?.destroy();
  }

  async stop(): Promise<void> {
    this.drop();
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #run(line: string): void {
    const { execute, arguments: args = {} } = JSON.parse(line) as {
      execute: string;
      arguments?: Readonly<Record<string, unknown>>;
    };
    this.commands.push(execute);
    if (!this.running) return;
    if (execute === "guest-sync-delimited") {
      this.send(Buffer.concat([Buffer.from([0xff]), Buffer.from(`{"return": ${String(args["id"])}}\n`)]));
      return;
    }
    const answer = this.answers.get(execute);
    const reply =
      answer === undefined
        ? { error: { class: "CommandNotFound", desc: `The command ${execute} has not been found` } }
        : { return: answer(args) };
    const text = `${JSON.stringify(reply)}\n`;
    if (this.held.has(execute)) this.#late.push(text);
    else this.send(text);
  }
}
