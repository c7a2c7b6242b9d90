import { selfCommand } from "./self-command.ts";

/**
 * The data directory belongs into the command line of every long-lived process of ours, so that an administrator can
 * tell several apart. A configuration file hides it; the process then starts itself again, saying it.
 */
export function showDataDir(command: string, args: readonly string[], dataDir: string): void {
  if (args.some((arg) => arg === "--data" || arg.startsWith("--data="))) return;
  const [file = "", ...rest] = selfCommand();
  process.execve?.(file, [file, ...rest, command, ...args, "--data", dataDir], process.env);
}
