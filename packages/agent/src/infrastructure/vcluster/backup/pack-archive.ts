// Archives of clusters, made by the host's own tar of whatever pods have put into volumes. None is opened here.
import { rename, rm } from "node:fs/promises";
import type { Exec } from "@gpve/kit/exec.ts";
import { createPlainFile } from "@gpve/kit/held-file.ts";

const ARCHIVE_MS = 24 * 3_600_000;

export interface ArchivePart {
  /** Where the members are relative to. */
  readonly folder: string;
  readonly members: readonly string[];
}

/** Under its name only when it is whole. */
export async function writeArchive(
  exec: Exec,
  path: string,
  parts: readonly ArchivePart[],
  signal: AbortSignal,
): Promise<void> {
  const partial = `${path}.dat`;
  // What a crash left there.
  await rm(partial, { force: true });
  const file = await createPlainFile(partial, 0o600);
  try {
    const members = parts.flatMap((part) => ["-C", part.folder, ...part.members]);
    await exec("tar", ["--create", "--gzip", "--numeric-owner", "--format=pax", "--file=-", ...members], {
      signal,
      timeoutMs: ARCHIVE_MS,
      stdoutFile: file.fd,
      diesWithUs: true,
      // 1: a file of a volume was changed while it was read, as it may be in a cluster that runs.
      okCodes: [0, 1],
    });
    await file.sync();
    await rename(partial, path);
  } catch (err) {
    await rm(partial, { force: true });
    throw err;
  } finally {
    await file.close();
  }
}

export async function discardArchive(path: string): Promise<void> {
  for (const file of [path, `${path}.dat`]) await rm(file, { force: true });
}
