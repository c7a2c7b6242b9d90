// Long-lived processes of ours that outlive whoever starts them. Everything that ends by itself uses exec.ts.
import { spawn } from "node:child_process";
import { openSync, closeSync } from "node:fs";
import type { Socket } from "node:net";
import type { Readable, Writable } from "node:stream";
import { given } from "@gpve/contracts/given.ts";
import { MINIMAL_ENV } from "./exec.ts";
import { startAt, startUnhurried } from "./urgent-work.ts";

export interface DetachedOptions {
  /** Output goes here, appended. */
  readonly logFile: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** As `nice` has it: less than 0 goes before others. Default: as everybody. */
  readonly priority?: number;
}

/** Starts a process in its own session; returns its pid. It does not die with us. */
export function spawnDetached(file: string, args: readonly string[], options: DetachedOptions): number {
  const log = openSync(options.logFile, "a", 0o600);
  try {
    const { priority } = options;
    const start = () =>
      spawn(file, args, {
        detached: true,
        stdio: ["ignore", log, log],
        shell: false,
        ...given({ cwd: options.cwd }),
        ...(options.env === undefined ? {} : { env: { ...options.env } }),
      });
    const child = priority === undefined ? startUnhurried(start) : startAt(priority, start);
    child.on("error", () => {
      // The caller waits for readiness and reports what the log says.
    });
    child.unref();
    if (child.pid === undefined) throw new Error(`cannot start ${file}`);
    return child.pid;
  } finally {
    closeSync(log);
  }
}

/**
 * Starts a process that outlives us and says one line on stdout when it is ready or has failed.
 * Resolves with that line; rejects when it ends without one or is silent for too long.
 */
export function spawnReporting(
  file: string,
  args: readonly string[],
  options: { readonly timeoutMs: number; readonly env?: Readonly<Record<string, string>> },
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = startUnhurried(() =>
      spawn(file, args, {
        detached: true,
        stdio: ["ignore", "pipe", "ignore"],
        shell: false,
        env: { ...(options.env ?? MINIMAL_ENV) },
      }),
    );
    let text = "";
    const finish = (): void => {
      clearTimeout(timer);
      child.stdout.destroy();
      child.unref();
    };
    const timer = setTimeout(() => {
      finish();
      child.kill("SIGKILL");
      reject(new Error(`${file} said nothing within ${options.timeoutMs} ms`));
    }, options.timeoutMs);
    child.on("error", (err) => {
      finish();
      reject(err);
    });
    child.stdout.on("data", (chunk: Buffer) => {
      text += chunk.toString("utf8");
      const end = text.indexOf("\n");
      if (end < 0) return;
      finish();
      resolve(text.slice(0, end));
    });
    child.stdout.on("end", () => {
      finish();
      reject(new Error(`${file} ended without a word`));
    });
  });
}

export interface PipedProcess {
  readonly input: Writable;
  readonly output: Readable;
  /** Resolves when it has ended, however; it never rejects. */
  readonly ended: Promise<void>;
  kill(): void;
}

/** Starts a process that is talked to for as long as it runs, and that ends when its standard input does. */
export function spawnPiped(
  file: string,
  args: readonly string[],
  options: { readonly env?: Readonly<Record<string, string>> } = {},
): PipedProcess {
  const child = startUnhurried(() =>
    spawn(file, args, {
      stdio: ["pipe", "pipe", "ignore"],
      shell: false,
      cwd: "/",
      env: { ...(options.env ?? MINIMAL_ENV) },
    }),
  );
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  child.on("error", () => resolve());
  child.on("close", () => resolve());
  // Told by its end.
  child.stdin.on("error", () => undefined);
  return { input: child.stdin, output: child.stdout, ended, kill: () => void child.kill("SIGTERM") };
}

/**
 * Starts a process whose standard input and output are one connection, which the caller gets the other end of. It is a
 * socket of the system's, so that TLS and HTTP/2 take it as any other. The script is always this one.
 */
export function spawnConnection(
  file: string,
  args: readonly string[],
  options: { readonly env?: Readonly<Record<string, string>> } = {},
): Socket {
  const script = 'exec "$0" "$@" <&3 >&3 3>&-';
  const child = startUnhurried(() =>
    spawn("sh", ["-c", script, file, ...args], {
      stdio: ["ignore", "ignore", "ignore", "pipe"],
      shell: false,
      cwd: "/",
      env: { ...(options.env ?? MINIMAL_ENV) },
    }),
  );
  const connection = child.stdio[3] as Socket;
  child.on("error", () => connection.destroy());
  // Told by its end.
  connection.on("error", () => undefined);
  connection.on("close", () => child.kill("SIGTERM"));
  return connection;
}

/** Starts a process that has this connection open too, as descriptor 3, for as long as it likes. */
export function spawnHolding(file: string, args: readonly string[], connection: Socket): void {
  const child = startUnhurried(() =>
    spawn(file, args, {
      detached: true,
      stdio: ["ignore", "ignore", "ignore", connection],
      shell: false,
      cwd: "/",
      env: { ...MINIMAL_ENV },
    }),
  );
  child.on("error", () => {
    // Then the connection lives as long as we do.
  });
  child.unref();
}
