// A command is data: the parser, the help, the completion and the reference page all derive from it.
import type { GpveClient } from "@gpve/client/client.ts";
import type { CliIo } from "./io.ts";
import type { Input } from "./input.ts";
import type { Printer } from "./output/printer.ts";

export interface ArgumentSpec {
  /** "<name>" required, "[name]" optional, "<name...>" one or more. */
  readonly name: string;
  readonly about: string;
  readonly choices?: readonly string[];
}

export interface OptionSpec {
  /** "-n, --limit <count>" */
  readonly flags: string;
  readonly about: string;
  readonly choices?: readonly string[];
  /** Refuses (AppError request.invalid) what does not fit. */
  readonly parse?: (text: string) => unknown;
  readonly required?: boolean;
  /** May be given several times. */
  readonly many?: boolean;
}

export interface CommandSpec {
  /** "task list" */
  readonly name: string;
  readonly summary: string;
  readonly details?: string;
  readonly arguments?: readonly ArgumentSpec[];
  readonly options?: readonly OptionSpec[];
  /** Each a whole command line after "gpvectl ". */
  readonly examples?: readonly string[];
  /** What is being tried, for error messages: "delete pool p1". */
  readonly doing: (input: Input) => string;
  /** A number is the exit code; nothing is 0. */
  readonly run: (cli: Cli, input: Input) => Promise<number | void>;
}

export interface Cli {
  readonly io: CliIo;
  readonly out: Printer;
  readonly signal: AbortSignal;
  /** Global options as given. */
  readonly global: GlobalOptions;
  /** The chosen server; opened on first use. */
  client(): Promise<GpveClient>;
}

export interface GlobalOptions {
  readonly data?: string;
  readonly context?: string;
  readonly timeoutMs?: number;
  readonly outputGiven: boolean;
}
