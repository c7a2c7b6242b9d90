// Where a guest has no cgroup, what the kernel says of its process; all its threads are counted.
import type { GuestUsage } from "@gpve/domain/guest/guest-processes.ts";
import { readTextFile } from "@gpve/kit/atomic-file.ts";
import { ignore } from "@gpve/kit/background.ts";

/** USER_HZ is 100 on every architecture we run on; so is a page 4 KiB on x86, and /proc/PID/status has kB. */
const NS_PER_TICK = 10_000_000;

export function processUsage(pid: number): GuestUsage {
  try {
    const stat = readTextFile(`/proc/${pid}/stat`) ?? "";
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const status = readTextFile(`/proc/${pid}/status`) ?? "";
    const kib = (name: string): number =>
      Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(status)?.[1] ?? 0);
    return {
      cpuNs: (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) * NS_PER_TICK,
      memoryBytes: kib("VmRSS") * 1024,
      memoryAnonBytes: (kib("RssAnon") + kib("RssShmem")) * 1024,
    };
  } catch (err) {
    ignore(err, "it ended while we looked");
    return { cpuNs: 0, memoryBytes: 0, memoryAnonBytes: 0 };
  }
}
