// A process that a test starts, signals and ends. It never outlives the test process.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { given } from "@gpve/contracts/given.ts";
import { MINIMAL_ENV } from "../exec.ts";

const SETPRIV = "/usr/bin/setpriv";

export interface Child {
  readonly pid: number;
  /** Everything it printed so far, both streams. */
  output(): string;
  onLine(listener: (line: string) => void): void;
  signal(name: NodeJS.Signals): void;
  /** Resolves with exit code or signal name. */
  readonly exited: Promise<number | string>;
  /** Kills it if it still runs, and waits. */
  stop(): Promise<void>;
}

/** A child of ours that is killed and started again compiles everything each time, unless somebody keeps what it compiled. */
function compiledCode(): Readonly<Record<string, string>> {
  return given({ NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"] });
}

export function startChild(
  file: string,
  args: readonly string[],
  options: { readonly env?: Readonly<Record<string, string>>; readonly cwd?: string } = {},
): Child {
  // A test runner may be killed before it can clean up: then the kernel does it.
  const argv = existsSync(SETPRIV) ? [SETPRIV, "--pdeathsig=KILL", "--", file, ...args] : [file, ...args];
  const child = spawn(argv[0] ?? file, argv.slice(1), {
    env: options.env ?? { ...MINIMAL_ENV, ...compiledCode() },
    cwd: options.cwd,
    stdio: ["ignore", "pipe", "pipe"],
    shell: false,
  });
  const { pid } = child;
  let output = "";
  const listeners: ((line: string) => void)[] = [];
  let partial = "";
  child.stdout.on("data", (chunk: Buffer) => {
    const text = chunk.toString("utf8");
    output = (output + text).slice(-1_000_000);
    const lines = (partial + text).split("\n");
    partial = lines.pop() ?? "";
    for (const line of lines) for (const listener of listeners) listener(line);
  });
  child.stderr.on("data", (chunk: Buffer) => {
    output = (output + chunk.toString("utf8")).slice(-1_000_000);
  });
  const kill = (): void => {
    child.kill("SIGCONT");
    child.kill("SIGKILL");
  };
  process.on("exit", kill);
  const exited = new Promise<number | string>((resolve) => {
    child.on("error", (err) => {
      output += err.message;
      resolve("error");
    });
    child.on("close", (code, signal) => {
      process.off("exit", kill);
      resolve(code ?? signal ?? "unknown");
    });
  });
  return {
    pid: pid ?? 0,
    output: () => output,
    onLine: (listener) => listeners.push(listener),
    signal: (name) => void child.kill(name),
    exited,
    async stop() {
      kill();
      await exited;
    },
  };
}
