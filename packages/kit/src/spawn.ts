// Long-lived processes of ours that outlive whoever starts them. Everything that ends by itself uses exec.ts.
import { spawn } from "node:child_process";
import { openSync, closeSync } from "node:fs";

export interface DetachedOptions {
  /** Output goes here, appended. */
  readonly logFile: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

/** Starts a process in its own session; returns its pid. It does not die with us. */
export function spawnDetached(file: string, args: readonly string[], options: DetachedOptions): number {
  const log = openSync(options.logFile, "a", 0o600);
  try {
    const child = spawn(file, args, {
      detached: true,
      stdio: ["ignore", log, log],
      shell: false,
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
      ...(options.env === undefined ? {} : { env: { ...options.env } }),
    });
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
