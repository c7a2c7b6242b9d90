// What the CLI touches of the world, so that tests can hold all of it.
import type { Transport } from "@gpve/client/transport.ts";
import type { NodeTransportOptions } from "@gpve/client/node-transport.ts";
import type { Clock } from "@gpve/kit/clock.ts";

export interface OutStream {
  write(text: string): void;
  readonly isTTY: boolean;
  /** Width of the terminal; undefined when it is none. */
  readonly columns: number | undefined;
}

export interface CliIo {
  readonly stdout: OutStream;
  readonly stderr: OutStream;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly homeDir: string;
  readonly cwd: string;
  readonly clock: Clock;
  /** Aborts on Ctrl-C. */
  readonly signal: AbortSignal;
  /** Data directory of a gpve on this machine, tried when nothing else names a server. */
  readonly localDataDir?: string;
  /** Everything on standard input. */
  readStdin(): Promise<string>;
  /** Asks on the terminal; refuses (config.invalid) when there is none. Hidden answers are not echoed. */
  ask(question: string, options?: { hidden?: boolean }): Promise<string>;
  connect(options: NodeTransportOptions): Transport;
}
