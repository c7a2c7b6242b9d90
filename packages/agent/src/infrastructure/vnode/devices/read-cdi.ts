// Descriptions of devices for containers (CDI) that this node's administrator has put where runtimes look for them. They name device
// nodes, mounts and programs that root runs: only files that nobody but root can have written are read.
import { constants } from "node:fs";
import { open, readdir } from "node:fs/promises";
import { join } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { NodeFacts } from "@gpve/domain/node/runtime.ts";
import { type CdiSpec, readCdiSpec } from "@gpve/domain/vcluster/devices/cdi-spec.ts";
import { offeredOf } from "@gpve/domain/vcluster/devices/owned-devices.ts";
import { readPlainYaml } from "@gpve/kit/config/plain-yaml.ts";
import { openPlainFile } from "@gpve/kit/held-file.ts";
import { isMissingFile } from "@gpve/kit/missing-file.ts";

export interface ReadCdi {
  readonly specs: readonly CdiSpec[];
  /** Files that are not read, and why. */
  readonly unread: readonly string[];
}

/** What is in the first counts before what is in the second, as for every runtime. */
const CDI_FOLDERS: readonly string[] = ["/var/run/cdi", "/etc/cdi"];
const MOST_BYTES = 1024 * 1024;
const MOST_FILES = 64;
const WRITABLE_BY_OTHERS = 0o022;

export async function readCdi(folders: readonly string[] = CDI_FOLDERS): Promise<ReadCdi> {
  const specs: CdiSpec[] = [];
  const unread: string[] = [];
  for (const folder of folders) {
    const names = await namesIn(folder).catch((err: unknown) => {
      unread.push(`${folder} is not read: ${messageOf(err)}`);
      return [];
    });
    for (const name of names.slice(0, MOST_FILES)) {
      try {
        const spec = readCdiSpec(readPlainYaml(await textOf(join(folder, name))));
        if (spec !== undefined) specs.push(spec);
      } catch (err) {
        unread.push(`${join(folder, name)} is not read: ${messageOf(err).slice(0, 200)}`);
      }
    }
  }
  return { specs, unread };
}

/** As a node tells them; undefined: it has none. */
export async function deviceFacts(folders?: readonly string[]): Promise<NodeFacts["devices"]> {
  const { specs } = await readCdi(folders);
  const kinds = [...new Set(specs.map(({ kind }) => kind))].toSorted();
  const rows = kinds.map((kind) => ({ kind, count: offeredOf(kind, specs).length }));
  const some = rows.filter(({ count }) => count > 0);
  return some.length === 0 ? undefined : some;
}

async function namesIn(folder: string): Promise<readonly string[]> {
  try {
    // Who may write to the folder may put root's own files of another place into it.
    const held = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY);
    try {
      requireOurs(await held.stat());
    } finally {
      await held.close();
    }
    return (await readdir(folder)).filter((name) => /\.(json|ya?ml)$/.test(name)).toSorted();
  } catch (err) {
    if (isMissingFile(err)) return [];
    throw err;
  }
}

async function textOf(path: string): Promise<string> {
  const file = await openPlainFile(path);
  try {
    const facts = await file.stat();
    requireOurs(facts);
    if (!facts.isFile()) throw new AppError("request.invalid", "it is no plain file");
    if (facts.size > MOST_BYTES)
      throw new AppError("request.invalid", `it has more than ${MOST_BYTES} bytes`);
    const buffer = Buffer.alloc(MOST_BYTES);
    const { bytesRead } = await file.read(buffer, 0, MOST_BYTES, 0);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await file.close();
  }
}

function requireOurs({ uid, mode }: { readonly uid: number; readonly mode: number }): void {
  if (uid !== 0 && uid !== process.getuid?.())
    throw new AppError("request.invalid", `it is of user ${uid}, and not of root`);
  if ((mode & WRITABLE_BY_OTHERS) !== 0) throw new AppError("request.invalid", "others may write to it");
}
