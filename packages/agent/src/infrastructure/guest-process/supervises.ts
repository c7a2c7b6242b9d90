import { readdirSync, readFileSync } from "node:fs";
import { ignore } from "@gpve/kit/background.ts";

/** Is there a supervisor with this spec? Seen in the process list. */
export function supervises(specFile: string, dataFolder: string): boolean {
  for (const entry of readdirSync("/proc")) {
    if (!/^\d+$/.test(entry)) continue;
    try {
      const args = readFileSync(`/proc/${entry}/cmdline`, "utf8").split("\0");
      if (args.includes(specFile) && args.includes(dataFolder)) return true;
    } catch (err) {
      ignore(err, "it ended while we looked");
    }
  }
  return false;
}
