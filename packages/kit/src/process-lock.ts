// One process per data directory. The lock names its holder, so a crash leaves nothing that a person must clear.
import { linkSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { isMissingFile } from "./missing-file.ts";
import { type Clock, systemClock } from "./clock.ts";
import { readJsonFile } from "./atomic-file.ts";
import { identify, isAlive, type ProcessIdentity } from "./process-identity.ts";

export interface ProcessLock {
  release(): void;
}

/** Throws `resource.busy` naming the holder while that very process lives. */
export function acquireProcessLock(path: string): ProcessLock {
  // Appears whole or not at all: a half-written lock would be taken for that of a dead process.
  const own = `${path}.${process.pid}`;
  writeFileSync(own, JSON.stringify(identify(process.pid)), { mode: 0o600 });
  try {
    for (let attempt = 0; attempt < 10; attempt++) {
      if (linked(own, path)) return { release: () => rmSync(path, { force: true }) };
      const holder = readHolder(path);
      if (holder !== undefined && isAlive(holder)) throw busy(holder);
      removeDead(path);
    }
  } finally {
    rmSync(own, { force: true });
  }
  throw new AppError("resource.busy", `cannot take ${path}: several processes want it at once`);
}

/** The same, waiting for whoever has it. `what` it waits for is named when the wait is cancelled. */
export async function waitForProcessLock(
  path: string,
  what: string,
  options: { readonly signal?: AbortSignal; readonly clock?: Clock } = {},
): Promise<ProcessLock> {
  const { signal, clock = systemClock } = options;
  for (;;) {
    if (signal?.aborted === true)
      throw new AppError("operation.cancelled", `waiting for ${what} was cancelled`);
    try {
      return acquireProcessLock(path);
    } catch (err) {
      if (!isAppError(err, "resource.busy")) throw err;
    }
    await clock.sleep(200, signal);
  }
}

function busy({ pid }: ProcessIdentity): AppError {
  return new AppError("resource.busy", `another gpve (process ${pid}) already uses this data directory`, {
    data: { pid },
  });
}

function linked(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw err;
  }
}

/** Moved aside first: another may have removed the dead one's lock and taken it, and that one goes back. */
function removeDead(path: string): void {
  const aside = `${path}.dead-${process.pid}`;
  try {
    renameSync(path, aside);
  } catch (err) {
    if (isMissingFile(err)) return;
    throw err;
  }
  const holder = readHolder(aside);
  if (holder !== undefined && isAlive(holder)) linked(aside, path);
  rmSync(aside, { force: true });
}

function readHolder(path: string): ProcessIdentity | undefined {
  try {
    return readJsonFile(path) as ProcessIdentity | undefined;
  } catch (err) {
    if (err instanceof SyntaxError) return undefined; // written by a process that died in between
    throw err;
  }
}
