import { isIPv6 } from "node:net";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs, type ParseArgsConfig } from "node:util";
import { AppError } from "@gpve/contracts/errors.ts";

export const DEFAULT_LISTEN = "127.0.0.1:8006";

/** As the launcher script has it. */
export function defaultDataDir(): string {
  const { GPVE_DATA: chosen, XDG_DATA_HOME: share } = process.env as Partial<Record<string, string>>;
  if (chosen !== undefined && chosen !== "") return chosen;
  if (process.getuid?.() === 0) return "/var/lib/gpve";
  return join(share === undefined || share === "" ? join(homedir(), ".local/share") : share, "gpve");
}

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** "127.0.0.1:8006", "[::1]:8006", ":8006". */
export function parseListen(text: string): ListenAddress {
  const match = /^(?:\[([^\]]+)\]|([^:[\]]*)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (match === null || port > 65_535) {
    throw new AppError(
      "config.invalid",
      `--listen ${text}: expected ADDR:PORT, for example ${DEFAULT_LISTEN} or [::]:8006`,
    );
  }
  return { host: match[1] ?? (match[2] === "" ? "0.0.0.0" : (match[2] ?? "")), port };
}

export function formatUrl({ host, port }: ListenAddress): string {
  const shown = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  return `https://${isIPv6(shown) ? `[${shown}]` : shown}:${port}`;
}

type Options = NonNullable<ParseArgsConfig["options"]>;

/** Options of a launcher command; a typo is an error that names the ones there are. */
export function commandOptions<T extends Options>(command: string, args: readonly string[], options: T) {
  try {
    return parseArgs({ args: [...args], options, strict: true, allowPositionals: false }).values;
  } catch (cause) {
    const known = Object.keys(options).map((name) => `--${name}`);
    throw new AppError(
      "config.invalid",
      `gpve ${command}: ${(cause as Error).message}. Options: ${known.join(", ")}`,
      { cause },
    );
  }
}

export function dataDirOption(value: string | undefined): string {
  return resolve(value ?? defaultDataDir());
}
