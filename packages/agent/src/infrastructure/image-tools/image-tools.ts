// Programs that work on images (qemu-img, qemu-nbd, unpackers). A guest or a stranger has written these, so a program gets
// to see the files it is named and nothing else; see confined-tools.ts.
import { MINIMAL_ENV, type Exec, type ExecOptions, type ExecResult } from "@gpve/kit/exec.ts";

export interface ToolFile {
  readonly path: string;
  readonly access: "ro" | "rw";
}

/** What a program needs that fetches what strangers serve. */
export interface Fetching {
  /** A folder of its own, the only place where it writes. */
  readonly workFolder: string;
  /** Files and folders of the host that it may read besides, where they are there: certificates, addresses. */
  readonly reads: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

export interface ToolOptions extends Omit<ExecOptions, "input" | "cwd" | "env"> {
  /** Of setrlimit(2): as, cpu, fsize, nofile. */
  readonly limits?: Readonly<Record<string, number>>;
  /** Where the program listens: made by us, given to it as a descriptor. For qemu-nbd. */
  readonly socket?: string;
  /** With the host's network. */
  readonly fetching?: Fetching;
  /** 0 to 7 best effort, 8 only when nobody else wants the disk. */
  readonly ionice?: number | undefined;
}

export interface ImageTools {
  (
    program: string,
    args: readonly string[],
    files: readonly ToolFile[],
    options?: ToolOptions,
  ): Promise<ExecResult>;
}

/** Without root there is no other user and no view to be had: the program runs as we do, with its limits. */
export function plainTools(exec: Exec): ImageTools {
  return (program, args, _files, { limits = {}, socket, ionice, fetching, ...options } = {}) => {
    const bounds = Object.entries(limits).map(([name, value]) => `--${name}=${value}`);
    const [first = program, ...rest] = [
      ...politely(ionice),
      ...(bounds.length === 0 ? [] : ["prlimit", "--core=0", ...bounds, "--"]),
      program,
      ...(socket === undefined ? [] : ["--socket", socket]),
      ...args,
    ];
    const env = fetching === undefined ? {} : { env: { ...MINIMAL_ENV, ...fetching.env } };
    return exec(first, rest, { ...options, ...env, label: program });
  };
}

export function politely(ionice: number | undefined): string[] {
  if (ionice === undefined) return [];
  return ["ionice", ...(ionice > 7 ? ["-c3"] : ["-c2", `-n${ionice}`])];
}
