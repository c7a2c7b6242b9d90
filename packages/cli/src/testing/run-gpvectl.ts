// Runs gpvectl against a scripted API and gives back everything it printed.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import { FakeApi, FakeTransport } from "@gpve/client/testing/fake-api.ts";
import type { NodeTransportOptions } from "@gpve/client/node-transport.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CliIo, LocalAddress, LocalClient, OutStream } from "../io.ts";
import { runPveCommand } from "../pve-commands/run-pve-command.ts";
import { FakeNetwork } from "@gpve/talos/testing/fake-network.ts";
import { runCli } from "../run-cli.ts";

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export interface RunOptions {
  readonly stdin?: string;
  /** Answers to questions, in order. */
  readonly answers?: readonly string[];
  /** A terminal of this width. */
  readonly terminal?: number;
  readonly env?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  readonly localDataDir?: string;
  /** Opens a terminal (or pipes, without `terminal`) with these keys. */
  readonly keys?: AsyncIterable<Uint8Array>;
  /** Told of the listener a command opened, which has no network behind it. */
  readonly onListen?: (where: LocalAddress, connect: (client: LocalClient) => void) => void;
}

/** 2026-01-02T03:04:05Z */
export const NOW = 1_767_323_045_000;

/** One home folder and one scripted server, for as many runs as a test likes. */
export class Gpvectl implements AsyncDisposable {
  readonly api = new FakeApi();
  readonly home: string;
  readonly asked: string[] = [];
  readonly connections: NodeTransportOptions[] = [];
  /** The server's certificate; other pins are refused, no pin is untrusted. undefined = trusted by all. */
  certificate: string | undefined;
  /** Nobody is there, and no Image Factory, until a test says so. */
  readonly network = new FakeNetwork();
  /** What the open terminal does when its size changes. */
  resize: () => void = () => undefined;
  #now = NOW;

  private constructor(home: string) {
    this.home = home;
  }

  static async create(): Promise<Gpvectl> {
    return new Gpvectl(await mkdtemp(join(tmpdir(), "gpvectl-test-")));
  }

  /** What the clock shows. */
  now(): number {
    return this.#now;
  }

  run(argv: readonly string[], options: RunOptions = {}): Promise<Ran> {
    return this.#captured(options, (io) => runCli(argv, io));
  }

  /** One of PVE's commands, on the machine of the scripted server. */
  async runPve(program: string, argv: readonly string[], options: RunOptions = {}): Promise<Ran> {
    const localDataDir = join(this.home, "data");
    await mkdir(localDataDir, { recursive: true });
    const credentials = { url: "https://fake:8006", username: "root@pam", token: "root@pam!up=x" };
    await writeFile(join(localDataDir, "credentials.json"), JSON.stringify(credentials));
    return this.#captured({ localDataDir, ...options }, (io) => runPveCommand(program, argv, io));
  }

  async #captured(options: RunOptions, run: (io: CliIo) => Promise<number>): Promise<Ran> {
    const answers = [...(options.answers ?? [])];
    const out = capture(options.terminal);
    const err = capture(options.terminal);
    const io: CliIo = {
      stdout: out.stream,
      stderr: err.stream,
      env: { GPVE_URL: "https://fake:8006", GPVE_TOKEN: "root@pam!up=x", ...options.env },
      homeDir: this.home,
      cwd: this.home,
      clock: {
        now: () => this.#now,
        monotonic: () => this.#now,
        sleep: async (ms) => {
          this.#now += ms;
        },
        after: () => () => undefined,
      },
      signal: options.signal ?? new AbortController().signal,
      ...given({ localDataDir: options.localDataDir }),
      readStdin: async () => options.stdin ?? "",
      ask: async (question) => {
        this.asked.push(question);
        const answer = answers.shift();
        if (answer === undefined) throw new AppError("config.invalid", "no terminal");
        return answer;
      },
      probes: async () => this.network,
      openTerminal: () => ({
        isTTY: options.terminal !== undefined,
        input: options.keys ?? nothing(),
        size: () => (options.terminal === undefined ? undefined : { columns: options.terminal, rows: 24 }),
        onResize: (listener) => {
          this.resize = listener;
          return () => undefined;
        },
        write: async (bytes) => out.stream.write(Buffer.from(bytes).toString("latin1")),
        close: () => this.resize(),
      }),
      listen: async (where, onClient) => {
        options.onListen?.(where, onClient);
        return {
          address: "socket" in where ? where.socket : `${where.host}:5999`,
          close: async () => undefined,
        };
      },
      connect: (target) => {
        this.connections.push(target);
        return this.#transport(target);
      },
    };
    const code = await run(io);
    return { code, out: out.text(), err: err.text() };
  }

  #transport(target: NodeTransportOptions): FakeTransport {
    const transport = new FakeTransport(this.api);
    const { certificate } = this;
    if (certificate !== undefined && target.fingerprint !== certificate) {
      transport.send = () =>
        Promise.reject(
          new AppError("node.unavailable", "refused to talk to fake: its certificate is not trusted", {
            data: { untrusted: true, fingerprint: certificate },
          }),
        );
    }
    return transport;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.home, { recursive: true, force: true });
  }
}

function capture(columns: number | undefined): { stream: OutStream; text: () => string } {
  let text = "";
  return {
    stream: {
      write: (piece) => {
        text += piece;
      },
      isTTY: columns !== undefined,
      columns,
    },
    text: () => text,
  };
}

async function* nothing(): AsyncGenerator<Uint8Array> {
  yield* [];
}
