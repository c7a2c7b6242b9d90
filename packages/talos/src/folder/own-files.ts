// What a cluster cannot be managed without, copied and put back: its file, patches, secrets, lock, journal and what its
// add-ons are held to. A copy is a folder of the same shape with the hashes of all that is in it.
import { createHash } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { addonLockPath } from "../addon/addon-store.ts";
import type { ClusterFolder } from "./cluster-folder.ts";
import { journalPath } from "./journal.ts";
import { lockPath } from "./lock-file.ts";

const SUMS = "SHA256SUMS";
/** How many runs back one can go. */
const KEPT_COPIES = 20;

type Place = Pick<ClusterFolder, "folder" | "file" | "cluster" | "patches">;

export function ownFiles({ folder, file, cluster, patches }: Place, secretsFile: string): readonly string[] {
  const { name } = cluster.metadata;
  return [
    resolve(folder, file),
    secretsFile,
    ...[...patches.keys()].map((patch) => resolve(folder, patch)),
    lockPath(folder, name),
    journalPath(folder, name),
    addonLockPath(folder, name),
  ];
}

/** Copies of what is there, from before a change; the oldest go. */
export function keepCopies(folder: string, cluster: string, files: readonly string[], now: number): string {
  const copies = join(dirname(lockPath(folder, cluster)), "before");
  const place = join(copies, stamp(now));
  copyFiles(folder, files, place);
  for (const old of readdirSync(copies).toSorted().slice(0, -KEPT_COPIES)) {
    rmSync(join(copies, old), { recursive: true, force: true });
  }
  return place;
}

/** The names of what was copied. What lies outside the folder is not part of it, and not copied. */
export function copyFiles(folder: string, files: readonly string[], target: string): readonly string[] {
  const names = files.map((file) => relative(folder, file)).filter((name) => isInside(name));
  const found = [...new Set(names)].filter((name) => existsSync(join(folder, name)));
  mkdirSync(target, { recursive: true, mode: 0o700 });
  const sums = found.map((name) => {
    const content = readFileSync(join(folder, name));
    put(target, name, content, statSync(join(folder, name)).mode & 0o777);
    return `${sha256(content)}  ${name}\n`;
  });
  writeFileAtomic(join(target, SUMS), sums.join(""));
  return found;
}

/** What a copy holds, checked before anything is touched. */
export function readCopy(copy: string): ReadonlyMap<string, Buffer> {
  const sums = readTextFile(join(copy, SUMS));
  if (sums === undefined) throw damaged(copy, `it has no ${SUMS}`);
  const lines = sums.split("\n").filter((line) => line !== "");
  return new Map(
    lines.map((line) => {
      const [, sum, name] = /^([0-9a-f]{64}) {2}(.+)$/.exec(line) ?? [];
      if (name === undefined || !isInside(name)) throw damaged(copy, `"${line}" in ${SUMS} names no file`);
      if (!existsSync(join(copy, name))) throw damaged(copy, `${name} is missing`);
      const content = readFileSync(join(copy, name));
      if (sha256(content) !== sum) throw damaged(copy, `${name} is not what was copied`);
      return [name, content] as const;
    }),
  );
}

/** The cluster whose lock is among these files. */
export function clusterOfCopy(files: ReadonlyMap<string, Buffer>): string | undefined {
  const names = [...files.keys()].map(
    (name) => /^\.deployer\/([^/]+)\//.exec(name.split(sep).join("/"))?.[1],
  );
  return names.find((name) => name !== undefined);
}

/** Puts them where they were. The ones that are there are kept aside; the answer is where, if there were any. */
export function putBack(copy: string, folder: string, now: number): string | undefined {
  const files = readCopy(copy);
  const there = [...files.keys()].filter((name) => existsSync(join(folder, name)));
  const cluster = clusterOfCopy(files);
  const kept =
    there.length === 0 || cluster === undefined
      ? undefined
      : keepCopies(
          folder,
          cluster,
          there.map((name) => join(folder, name)),
          now,
        );
  for (const [name, content] of files) put(folder, name, content, statSync(join(copy, name)).mode & 0o777);
  return kept;
}

function put(folder: string, name: string, content: Buffer, mode: number): void {
  const path = join(folder, name);
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  writeFileAtomic(path, content);
  chmodSync(path, mode);
}

export const stamp = (now: number): string => new Date(now).toISOString().replaceAll(/[-:]/g, "");

const isInside = (name: string): boolean =>
  name !== "" && !isAbsolute(name) && !name.split(/[\\/]/).includes("..");

const sha256 = (content: Buffer): string => createHash("sha256").update(content).digest("hex");

const damaged = (copy: string, why: string): AppError =>
  new AppError("config.invalid", `${copy} is no whole copy of a cluster's files: ${why}`, {
    data: { finding: "copy-damaged", next: "Use another one. Nothing was changed." },
  });
