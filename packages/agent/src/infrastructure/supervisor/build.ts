// The supervisor's binary, built once per version of its sources with the system compiler. A release carries it ready.
// Where the sources' tree may be written it is kept there too: compiling costs as much as all the rest of a start, and
// a lab has a data directory for each of its nodes.
import { createHash } from "node:crypto";
import {
  accessSync,
  constants,
  copyFileSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  statSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import { exec as systemExec, type Exec } from "@gpve/kit/exec.ts";
import { ignore } from "@gpve/kit/background.ts";
import { isExecutable } from "../host/executable.ts";

interface SupervisorSources {
  /** `packages/supervisor` of the sources. */
  readonly sourceFolder: string;
  /** Where the tree of the sources keeps one for all data directories. */
  readonly sharedFolder?: string;
}

/** To be built, or ready. */
export type SupervisorSource = SupervisorSources | { readonly binary: string };

export interface SupervisorBuild extends SupervisorSources {
  /** Where built binaries are kept. */
  readonly cacheFolder: string;
  readonly compiler?: string;
  readonly exec?: Exec;
}

const FLAGS = [
  "-Os",
  "-std=c11",
  "-Wall",
  "-Wextra",
  "-Werror",
  "-Wshadow",
  "-Wconversion",
  "-fstack-protector-strong",
  "-fstack-clash-protection",
  "-U_FORTIFY_SOURCE",
  "-D_FORTIFY_SOURCE=2",
  "-D_GNU_SOURCE",
  "-fPIE",
  "-static-pie",
  "-Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code",
  "-s",
];

export function supervisorOf(
  source: SupervisorSource,
  { data, exec }: { readonly data: Pick<DataDir, "file">; readonly exec: Exec },
): Promise<string> {
  if ("binary" in source) return Promise.resolve(source.binary);
  return supervisorBinary({ ...source, cacheFolder: data.file("agent"), exec });
}

/** The path of a binary made from exactly these sources; quick when it is already there. */
export async function supervisorBinary(build: SupervisorBuild): Promise<string> {
  const folder = join(build.sourceFolder, "src");
  const files = readdirSync(folder)
    .filter((name) => /\.[ch]$/.test(name))
    .toSorted();
  const hash = createHash("sha256").update([process.arch, ...FLAGS].join(" "));
  for (const name of files) hash.update(`\0${name}\0`).update(readFileSync(join(folder, name)));
  const name = `gpve-supervisor-${hash.digest("hex").slice(0, 16)}`;
  const target = join(build.cacheFolder, name);
  if (isExecutable(target)) return target;
  mkdirSync(build.cacheFolder, { recursive: true });
  const sources = files.filter((each) => each.endsWith(".c")).map((each) => join(folder, each));
  const shared = build.sharedFolder === undefined ? undefined : join(build.sharedFolder, name);
  if (shared === undefined || (!isTrusted(shared, folder) && !mayWrite(dirname(shared)))) {
    await compile(build, sources, target);
    return target;
  }
  if (!isTrusted(shared, folder)) await compile(build, sources, shared);
  const temporary = `${target}.${process.pid}`;
  copyFileSync(shared, temporary);
  renameSync(temporary, target);
  return target;
}

async function compile(build: SupervisorBuild, sources: readonly string[], target: string): Promise<void> {
  const { exec = systemExec, compiler = "cc" } = build;
  const temporary = `${target}.${process.pid}`;
  try {
    await exec(compiler, [...FLAGS, "-o", temporary, ...sources], { timeoutMs: 120_000 });
  } catch (cause) {
    throw new AppError(
      "feature.unsupported",
      `cannot build the guest supervisor, so no guest can start: ${messageOf(cause)}. Install a C compiler: apt-get install --no-install-recommends gcc libc6-dev`,
      { cause },
    );
  }
  renameSync(temporary, target);
}

function mayWrite(folder: string): boolean {
  try {
    mkdirSync(folder, { recursive: true });
    accessSync(folder, constants.W_OK);
    return true;
  } catch (err) {
    ignore(err, "then each data directory has its own");
    return false;
  }
}

/** Whose sources we compile, his binary we run; nobody else's. */
function isTrusted(path: string, sources: string): boolean {
  if (!isExecutable(path)) return false;
  const { uid, mode } = statSync(path);
  return (mode & 0o022) === 0 && [process.getuid?.(), statSync(sources).uid].includes(uid);
}
