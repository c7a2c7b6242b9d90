import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";

/** The file named by --config, or the usual one. */
export function configPath(command: string, named: string | undefined): string {
  return resolve(named ?? `/etc/gpve/${command}.yaml`);
}

/** Reads the file named by --config, or /etc/gpve/<command>.yaml; says what to do when there is none. */
export function readConfigFile<T>(
  command: string,
  named: string | undefined,
  parse: (yaml: string, file: string, env: Readonly<Record<string, string | undefined>>) => T,
): T {
  const path = configPath(command, named);
  let yaml: string;
  try {
    yaml = readFileSync(path, "utf8");
  } catch (cause) {
    throw new AppError(
      "config.invalid",
      `cannot read the configuration ${path}: ${(cause as Error).message}${named === undefined ? `; name another with --config FILE, examples/config/${command}.yaml is one to begin with` : ""}`,
      { cause },
    );
  }
  return parse(yaml, path, process.env);
}
