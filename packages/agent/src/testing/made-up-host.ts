// A host that exists only in memory: files and programs as a test wants them.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Exec, ExecResult } from "@gpve/kit/exec.ts";
import type { HostFiles } from "../infrastructure/facts/host-files.ts";

export function madeUpFiles(files: Record<string, string>): HostFiles {
  return {
    read: (path) => Promise.resolve(files[path]),
    readBytes: (path) => {
      const found = files[path];
      return Promise.resolve(found === undefined ? undefined : Buffer.from(found, "latin1"));
    },
    list: (path) => {
      const below = Object.keys(files)
        .filter((file) => file.startsWith(`${path}/`))
        .map((file) => file.slice(path.length + 1).split("/")[0] ?? "");
      return Promise.resolve([...new Set(below)].toSorted());
    },
    mtime: (path) => Promise.resolve(files[path] === undefined ? undefined : 1),
    space: () => Promise.resolve({ total: 100, free: 40, avail: 30 }),
  };
}

/** Answers by the longest matching beginning of "program arg arg"; anything else is not installed. */
export function madeUpExec(
  programs: Record<string, string | (() => string | Promise<string>)>,
): Exec & { readonly calls: string[] } {
  const calls: string[] = [];
  const run = async (file: string, args: readonly string[]): Promise<ExecResult> => {
    const line = [file, ...args].join(" ");
    calls.push(line);
    const key = Object.keys(programs)
      .filter((known) => line.startsWith(known))
      .toSorted((a, b) => b.length - a.length)[0];
    const program = key === undefined ? undefined : programs[key];
    if (program === undefined) {
      throw new AppError("feature.unsupported", `cannot run ${file}: it is not installed`);
    }
    return { code: 0, stdout: typeof program === "string" ? program : await program(), stderr: "" };
  };
  return Object.assign(run, { calls });
}
