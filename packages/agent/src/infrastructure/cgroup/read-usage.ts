import type { GuestUsage } from "@gpve/domain/guest/guest-processes.ts";
import { pairIn } from "./cgroup-files.ts";

/** What a group and all below it take. `read`: the text of a file of it, "" where there is none. */
export function readUsage(version: 1 | 2, read: (file: string, controller: string) => string): GuestUsage {
  const two = version === 2;
  const memory = read("memory.stat", "memory");
  const cpuNs = two
    ? (pairIn(read("cpu.stat", "cpu"), "usage_usec") ?? 0) * 1_000
    : Number(read("cpuacct.usage", "cpuacct").trim() || 0);
  const current = Number(read(two ? "memory.current" : "memory.usage_in_bytes", "memory").trim() || 0);
  const anonymous = two
    ? (pairIn(memory, "anon") ?? 0) + (pairIn(memory, "shmem") ?? 0)
    : (pairIn(memory, "total_rss") ?? pairIn(memory, "rss") ?? 0) + (pairIn(memory, "total_shmem") ?? 0);
  return { cpuNs, memoryBytes: current, memoryAnonBytes: anonymous };
}
