// What the CLI touches of the world, so that tests can hold all of it.
import type { Transport } from "@gpve/client/transport.ts";
import type { NodeTransportOptions } from "@gpve/client/node-transport.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Probes } from "@gpve/talos/preflight/probes.ts";

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
  /** Who is in the network. Loaded when needed. */
  probes(): Promise<Probes>;
  /** The terminal, or the pipes in its place, byte by byte. */
  openTerminal(): Terminal;
  /** Listens on this machine until closed. */
  listen(where: LocalAddress, onClient: (client: LocalClient) => void): Promise<LocalListener>;
}

export interface Terminal {
  /** Keys come one by one and unprocessed, Ctrl-C too. */
  readonly isTTY: boolean;
  readonly input: AsyncIterable<Uint8Array>;
  size(): { readonly columns: number; readonly rows: number } | undefined;
  /** Returns how to stop listening. */
  onResize(listener: () => void): () => void;
  /** Resolves when there is room for more. */
  write(bytes: Uint8Array): Promise<void>;
  /** The terminal is as it was before; reading ends. */
  close(): void;
}

export type LocalAddress =
  | { readonly host: string; readonly port: number }
  /** A socket that only its owner may use. */
  | { readonly socket: string };

export interface LocalClient {
  readonly input: AsyncIterable<Uint8Array>;
  write(bytes: Uint8Array): Promise<void>;
  close(): void;
}

export interface LocalListener {
  /** "127.0.0.1:5900", or the socket's path. */
  readonly address: string;
  close(): Promise<void>;
}
