// The data of an etcd that does not run, as a copy of its folder: whole or not there.
import { existsSync, renameSync, rmSync } from "node:fs";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Exec } from "@gpve/kit/exec.ts";

/** Owners stay: it runs under a uid of its own. What is there of it before goes when the copy is whole. */
export async function copyEtcd(exec: Exec, from: string, to: string, signal: AbortSignal): Promise<void> {
  if (!existsSync(from))
    throw new AppError("internal.error", `there is no data of an etcd at ${from}: nothing was copied`);
  const part = `${to}.part`;
  rmSync(part, { recursive: true, force: true });
  await exec("cp", ["-a", "--reflink=auto", "-T", from, part], { signal, timeoutMs: 600_000 });
  await exec("sync", ["-f", part], { signal, timeoutMs: 600_000 });
  rmSync(to, { recursive: true, force: true });
  renameSync(part, to);
}
