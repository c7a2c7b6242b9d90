// What the work on components needs of a node.
import type { ComponentOrigin, ComponentSource } from "./component.ts";

export interface InstalledProgram {
  readonly sha256: string;
  readonly sizeBytes: number;
}

/** What is written down beside the programs. */
export interface InstalledComponent {
  readonly name: string;
  readonly version: string;
  readonly origin: ComponentOrigin;
  /** Milliseconds since the epoch. */
  readonly installedAt: number;
  readonly programs: Readonly<Record<string, InstalledProgram>>;
}

/** Programs by their content: equal ones lie there once, and each is known by its checksum. */
export interface ComponentStore {
  list(): readonly InstalledComponent[];
  get(name: string, version: string): InstalledComponent | undefined;
  /** Path of a program that is installed. */
  program(name: string, version: string, program: string): string;
  /** An empty folder for work, on the same file system. */
  workFolder(id: string): string;
  discard(id: string): void;
  /** Takes programs out of a folder. Appears whole or not at all. */
  put(
    component: Pick<InstalledComponent, "name" | "version" | "origin">,
    folder: string,
    programs: readonly string[],
  ): Promise<InstalledComponent>;
  /** What is wrong with one that is installed; empty = each program is what was installed. */
  faults(name: string, version: string): Promise<readonly string[]>;
  /** One at a time over all processes that share the folder. */
  alone<T>(name: string, version: string, signal: AbortSignal, work: () => Promise<T>): Promise<T>;
}

export interface SourceWork {
  readonly signal: AbortSignal;
  readonly say: (line: string) => void;
  readonly progress: (fraction: number, text?: string) => void;
}

/** Brings the programs of a source into a folder, each under its name. */
export type Obtain = (source: ComponentSource, folder: string, work: SourceWork) => Promise<void>;

/** Why a source has not got its programs, as far as can be seen in seconds; undefined = it has. */
export type FindRefusal = (source: ComponentSource, signal: AbortSignal) => Promise<string | undefined>;

/** What a program prints. */
export type Ask = (program: string, args: readonly string[]) => Promise<string>;
