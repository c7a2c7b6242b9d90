// Guests outlive whoever started them: a test that fails halfway would leave them to all tests after it.
import { readdirSync, readFileSync } from "node:fs";

/** Ends every guest of a data directory, whether or not anything else of it still runs. */
export function endGuestsOf(data: string): void {
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const argv = readFileSync(`/proc/${pid}/cmdline`, "utf8");
      if (argv.startsWith("qemu-system") && argv.includes(`${data}/run/guests/`))
        process.kill(Number(pid), "SIGKILL");
    } catch {
      // It ended while we looked.
    }
  }
}
