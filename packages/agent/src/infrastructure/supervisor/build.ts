// The supervisor's binary, built once per version of its sources with the system compiler. A release carries it ready.
import { createHash } from "node:crypto";
import { accessSync, constants, mkdirSync, readFileSync, readdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { exec as systemExec, type Exec } from "@gpve/kit/exec.ts";
import { ignore } from "@gpve/kit/background.ts";

export interface SupervisorBuild {
  /** `packages/supervisor` of the sources. */
  readonly sourceFolder: string;
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

/** The path of a binary made from exactly these sources; quick when it is already there. */
export async function supervisorBinary(build: SupervisorBuild): Promise<string> {
  const { exec = systemExec, compiler = "cc" } = build;
  const folder = join(build.sourceFolder, "src");
  const files = readdirSync(folder)
    .filter((name) => /\.[ch]$/.test(name))
    .toSorted();
  const hash = createHash("sha256").update([process.arch, ...FLAGS].join(" "));
  for (const name of files) hash.update(`\0${name}\0`).update(readFileSync(join(folder, name)));
  const target = join(build.cacheFolder, `gpve-supervisor-${hash.digest("hex").slice(0, 16)}`);
  if (isExecutable(target)) return target;
  mkdirSync(build.cacheFolder, { recursive: true });
  const temporary = `${target}.${process.pid}`;
  const sources = files.filter((name) => name.endsWith(".c")).map((name) => join(folder, name));
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
  return target;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch (err) {
    ignore(err, "not built yet");
    return false;
  }
}
