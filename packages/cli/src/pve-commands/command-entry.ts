// One command of PVE's command line: which method it calls, with which positional arguments, and how its answer is shown.
import type { GpveClient } from "@gpve/client/client.ts";
import type { PveRouteKey } from "@gpve/contracts/pve/route-key.ts";
import type { PveSchema } from "@gpve/contracts/pve/schema.ts";
import type { CliIo } from "../io.ts";
import type { TextTableStyle } from "./output/text-table.ts";

/** Values of options and positional arguments, as the API takes them. */
export type OptionValues = Readonly<Record<string, string | readonly string[]>>;

/** This machine's gpve, with root's own credentials. */
export interface PveSession {
  readonly io: CliIo;
  client(): Promise<GpveClient>;
  /** Its name in the cluster. */
  node(): Promise<string>;
  readonly line: (text: string) => void;
}

/** `style`: as the output options say, where the command has them. */
type Show = (data: unknown, line: (text: string) => void, style?: TextTableStyle) => void;

interface Command {
  /** Parameters that are given by their place. */
  readonly args: readonly string[];
  /** Of these, the last takes all words that are left. */
  readonly isList?: true;
  readonly show?: Show;
  /** Takes --output-format and the like; `show` is for text. */
  readonly formats?: true;
  /** Columns of the table, where the schema's own are not shown. */
  readonly columns?: readonly string[];
}

export interface CallCommand extends Command {
  readonly call: PveRouteKey;
  readonly fixed?: Readonly<Record<string, string>>;
  /** Values that are a file's content, or are asked for. */
  readonly from?: Readonly<Record<string, ValueSource>>;
  /** The storage is part of the volume's name. */
  readonly storageOfVolume?: true;
  /** The same as a task, for values that take their time: its log is shown meanwhile. */
  readonly asTask?: (values: OptionValues) => PveRouteKey | undefined;
  /** Said of what was done, where the answer has no words for it. */
  readonly done?: (values: OptionValues) => string;
}

/** file: the file's text as URI text. password: asked for when it is not given. new-password: asked twice. */
export type ValueSource = "file" | "password" | "new-password";

/** What PVE's command does itself, beside the API. */
export interface OwnCommand extends Command {
  readonly own: (session: PveSession, values: OptionValues) => Promise<unknown>;
  readonly parameters: Readonly<Record<string, PveSchema>>;
  readonly returns?: PveSchema;
}

export interface CommandGroup {
  readonly commands: Readonly<Record<string, CommandEntry>>;
}

export type CommandEntry =
  | CallCommand
  | OwnCommand
  | CommandGroup
  /** "disk import" */
  | { readonly alias: string }
  /** PVE has it; why it has no meaning here. */
  | { readonly refused: string };
