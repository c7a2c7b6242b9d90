// One process per data directory. The lock names its holder, so a crash leaves nothing that a person must clear.
import { closeSync, openSync, rmSync, writeFileSync } from "node:fs";
import { AppError } from "@gpve/contracts/errors.ts";
import { readJsonFile } from "./atomic-file.ts";
import { identify, isAlive, type ProcessIdentity } from "./process-identity.ts";

export interface ProcessLock {
  release(): void;
}

/** Throws `resource.busy` naming the holder while that very process lives. */
export function acquireProcessLock(path: string): ProcessLock {
  for (let attempt = 0; attempt < 10; attempt++) {
    try {
      const file = openSync(path, "wx", 0o600);
      writeFileSync(file, JSON.stringify(identify(process.pid)));
      closeSync(file);
      return { release: () => rmSync(path, { force: true }) };
    } catch (err) {
      if ((err as NodeJS.ErrnoException).code !== "EEXIST") throw err;
    }
    const holder = readHolder(path);
    if (holder !== undefined && isAlive(holder)) {
      throw new AppError(
        "resource.busy",
        `another gpve (process ${holder.pid}) already uses this data directory`,
        {
          data: { pid: holder.pid },
        },
      );
    }
    rmSync(path, { force: true });
  }
  throw new AppError("resource.busy", `cannot take ${path}: several processes want it at once`);
}

function readHolder(path: string): ProcessIdentity | undefined {
  try {
    return readJsonFile(path) as ProcessIdentity | undefined;
  } catch (err) {
    if (err instanceof SyntaxError) return undefined; // written by a process that died in between
    throw err;
  }
}
