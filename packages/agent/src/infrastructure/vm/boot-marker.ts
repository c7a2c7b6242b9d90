import { existsSync, readFileSync } from "node:fs";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";

/**
 * Whether the machine has been booted since the last call, remembered at once: whatever hangs on it happens at most
 * once per boot. The first call ever says no, since no guest can have run before.
 */
export function bootedSince(file: string, bootId: string): boolean {
  const before = existsSync(file) ? readFileSync(file, "utf8").trim() : bootId;
  if (before !== bootId || !existsSync(file)) writeFileAtomic(file, `${bootId}\n`);
  return before !== bootId;
}
