// The layout of a data directory and its identity. Several can live side by side on one machine: each has an
// instance id, carried by cgroups, uids, nft tables and kernel interface names.
import { randomBytes } from "node:crypto";
import { chmodSync, existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { readJsonFile, writeFileAtomic } from "./atomic-file.ts";

/** Grows when the layout changes in a way an older program must not touch. */
export const DATA_VERSION = 1;

export interface DataDir {
  readonly path: string;
  /** Six hex digits; short enough for a kernel interface name. */
  readonly instanceId: string;
  readonly file: (...parts: string[]) => string;
}

interface InstanceFile {
  readonly version: number;
  readonly instanceId: string;
}

const folders = ["pki", "secrets", "server", "agent", "audit", "tasks", "log", "run"];

/** Opens a data directory, making it on first use. Refuses one that a newer version wrote. */
export function openDataDir(path: string): DataDir {
  const file = (...parts: string[]): string => join(path, ...parts);
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    chmodSync(path, 0o711); // guests run under their own uids and must reach their sockets
    for (const folder of folders) mkdirSync(file(folder), { recursive: true, mode: 0o700 });
  } catch (cause) {
    throw new AppError(
      "config.invalid",
      `cannot use ${path} as data directory: ${(cause as Error).message}; choose another with --data DIR`,
      { cause },
    );
  }
  const known = readInstance(file("instance.json"));
  if (known === undefined) {
    const fresh: InstanceFile = { version: DATA_VERSION, instanceId: randomBytes(3).toString("hex") };
    writeFileAtomic(file("instance.json"), `${JSON.stringify(fresh)}\n`);
    return { path, instanceId: fresh.instanceId, file };
  }
  if (known.version > DATA_VERSION) {
    throw new AppError(
      "data.newer_version",
      `${path} was written by a newer gpve (data version ${known.version}, this one knows ${DATA_VERSION}): use that version, or another --data DIR`,
    );
  }
  return { path, instanceId: known.instanceId, file };
}

/** Whether one was made there: for who looks at what is there, and makes nothing. */
export function isDataDir(path: string): boolean {
  return existsSync(join(path, "instance.json"));
}

/** undefined = a new directory. Half a file is no new directory: guests may still run under its old name. */
function readInstance(path: string): InstanceFile | undefined {
  try {
    const known = readJsonFile(path) as Partial<InstanceFile> | undefined;
    if (known === undefined) return undefined;
    const { version, instanceId } = known;
    if (typeof version !== "number" || !/^[0-9a-f]{6}$/.test(instanceId ?? ""))
      throw new Error("it names no instance");
    return known as InstanceFile;
  } catch (cause) {
    throw new AppError(
      "config.invalid",
      `${path} is damaged (${(cause as Error).message}): put back the one of a backup, or choose another data directory with --data DIR`,
      { cause },
    );
  }
}
