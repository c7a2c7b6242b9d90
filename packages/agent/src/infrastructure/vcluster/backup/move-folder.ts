// A folder that came with a backup, to where it belongs.
import { rmSync } from "node:fs";
import type { Exec } from "@gpve/kit/exec.ts";

const MOVE_MS = 24 * 3_600_000;

/** What is there goes. A storage may be another file system; links are moved as links. */
export async function moveFolder(exec: Exec, from: string, to: string): Promise<void> {
  rmSync(to, { recursive: true, force: true });
  await exec("mv", ["--no-target-directory", "--", from, to], { timeoutMs: MOVE_MS });
}
