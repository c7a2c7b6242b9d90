import { readFileSync } from "node:fs";
import { AppError } from "@gpve/contracts/errors.ts";

/** Reads a configuration file named by --config; says what to do when there is none. */
export function readConfigFile<T>(
  command: string,
  path: string | undefined,
  parse: (yaml: string, file: string, env: Readonly<Record<string, string | undefined>>) => T,
): T {
  if (path === undefined) throw new AppError("config.invalid", `gpve ${command} needs --config FILE`);
  let yaml: string;
  try {
    yaml = readFileSync(path, "utf8");
  } catch (cause) {
    throw new AppError(
      "config.invalid",
      `cannot read the configuration ${path}: ${(cause as Error).message}`,
      { cause },
    );
  }
  return parse(yaml, path, process.env);
}
