// The one place that starts processes. argv only: nothing that comes from anywhere is ever interpreted by a shell.
// Secrets go through stdin, never argv or environment.
import { spawn } from "node:child_process";
import { StringDecoder } from "node:string_decoder";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { startUnhurried } from "./urgent-work.ts";

export interface ExecOptions {
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
  readonly input?: string | Uint8Array;
  readonly cwd?: string;
  /** The whole environment of the child; default a minimal PATH and LC_ALL=C. */
  readonly env?: Readonly<Record<string, string>>;
  /** Output beyond this is an error, not a truncation. */
  readonly maxOutputBytes?: number;
  /** Exit codes that are not a failure; default [0]. */
  readonly okCodes?: readonly number[];
  /** Killed when we die, however we die: for programs whose work is thrown away after a crash. */
  readonly diesWithUs?: boolean;
  /** What messages call the program; default its file. */
  readonly label?: string;
  /** An open file that its stdout goes to, as it comes: we see nothing of it. */
  readonly stdoutFile?: number;
  /** False: stdout goes to `onLine` only, however much there is of it. */
  readonly keepOutput?: boolean;
  /** Called with every complete line of stdout and stderr as it arrives. */
  readonly onLine?: (line: string, stream: "stdout" | "stderr") => void;
}

export interface ExecResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Exec {
  (file: string, args: readonly string[], options?: ExecOptions): Promise<ExecResult>;
}

export const MINIMAL_ENV: Readonly<Record<string, string>> = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  LC_ALL: "C",
};

/**
 * Asks the kernel for a signal at our death, and then makes sure that we did not die before it was asked: whoever comes
 * too late for the signal does nothing at all. The script is always this one; program and arguments are its parameters.
 */
function dyingWithUs(argv: readonly string[]): string[] {
  const script = 'test "$PPID" = "$0" && exec "$@"';
  return ["setpriv", "--pdeathsig=KILL", "--", "sh", "-c", script, String(process.pid), ...argv];
}

/** The shell's exit code for a program that is not there. */
const NOT_FOUND = 127;

function notInstalled(file: string, cause?: Error): AppError {
  const options = { data: { file }, ...given({ cause }) };
  return new AppError("feature.unsupported", `cannot run ${file}: it is not installed`, options);
}

/** Runs a program to its end. Rejects with AppError naming program, exit code and the last words of stderr. */
export const exec: Exec = (program, args, options = {}) => {
  const file = options.label ?? program;
  const { timeoutMs = 60_000, maxOutputBytes = 16 * 1024 * 1024, okCodes = [0] } = options;
  return new Promise((resolve, reject) => {
    if (options.signal?.aborted) {
      reject(new AppError("operation.cancelled", `${file} was not started: the request was cancelled`));
      return;
    }
    const argv = [program, ...args];
    const [first = program, ...rest] = options.diesWithUs === true ? dyingWithUs(argv) : argv;
    const child = startUnhurried(() =>
      spawn(first, rest, {
        cwd: options.cwd,
        env: { ...(options.env ?? MINIMAL_ENV) },
        stdio: ["pipe", options.stdoutFile ?? "pipe", "pipe"],
        shell: false,
      }),
    );
    let failure: AppError | undefined;
    let bytes = 0;
    // What it left in the background may hold its output open for ever: nobody waits for that.
    const stopListening = (): void => {
      if (failure === undefined || (child.exitCode === null && child.signalCode === null)) return;
      child.stdout?.destroy();
      child.stderr?.destroy();
    };
    const stop = (error: AppError): void => {
      failure ??= error;
      child.kill("SIGTERM");
      setTimeout(() => child.kill("SIGKILL"), 2_000).unref();
      stopListening();
    };
    child.on("exit", stopListening);
    const collect = (stream: "stdout" | "stderr"): (() => string) => {
      const chunks: Buffer[] = [];
      const decoder = new StringDecoder("utf8"); // a character may come in two pieces
      let partial = "";
      child[stream]?.on("data", (chunk: Buffer) => {
        if (options.keepOutput !== false || stream === "stderr") {
          bytes += chunk.length;
          if (bytes > maxOutputBytes) {
            stop(new AppError("internal.error", `${file} wrote more than ${maxOutputBytes} bytes of output`));
            return;
          }
          chunks.push(chunk);
        }
        if (options.onLine === undefined) return;
        const lines = (partial + decoder.write(chunk)).split(/\r?\n|\r/);
        partial = lines.pop() ?? "";
        for (const line of lines) options.onLine(line, stream);
      });
      child[stream]?.on("end", () => {
        if (partial !== "" && options.onLine !== undefined) options.onLine(partial, stream);
      });
      return () => Buffer.concat(chunks).toString("utf8");
    };
    const stdout = collect("stdout");
    const stderr = collect("stderr");
    const timer = setTimeout(
      () => stop(new AppError("request.timeout", `${file} did not finish within ${timeoutMs} ms`)),
      timeoutMs,
    );
    const onAbort = (): void =>
      stop(new AppError("operation.cancelled", `${file} was stopped: the request was cancelled`));
    options.signal?.addEventListener("abort", onAbort, { once: true });
    const finish = (): void => {
      clearTimeout(timer);
      options.signal?.removeEventListener("abort", onAbort);
    };
    child.on("error", (cause: NodeJS.ErrnoException) => {
      finish();
      if (cause.code === "ENOENT") reject(notInstalled(options.diesWithUs === true ? first : program, cause));
      else
        reject(
          new AppError("internal.error", `cannot run ${file}: ${cause.message}`, { cause, data: { file } }),
        );
    });
    child.on("close", (code, signal) => {
      finish();
      if (failure !== undefined) {
        reject(failure);
        return;
      }
      const result = { code: code ?? 128, stdout: stdout(), stderr: stderr() };
      if (code !== null && okCodes.includes(code)) {
        resolve(result);
        return;
      }
      if (options.diesWithUs === true && code === NOT_FOUND && result.stderr.endsWith("not found\n")) {
        reject(notInstalled(file));
        return;
      }
      const how = code === null ? `was killed by ${signal}` : `failed with exit code ${code}`;
      const words = result.stderr.trim().split("\n").slice(-3).join("; ");
      reject(
        new AppError("internal.error", `${file} ${how}${words === "" ? "" : `: ${words}`}`, {
          data: {
            file,
            exitCode: result.code,
            stderr: result.stderr.slice(-2_000),
            stdout: result.stdout.slice(-2_000),
          },
        }),
      );
    });
    child.stdin?.on("error", () => {
      // The program may close its input early; its exit code tells the story.
    });
    child.stdin?.end(options.input ?? "");
  });
};
