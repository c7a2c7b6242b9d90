// In words, what a sleep of processes that stay in memory did on this host.
import { readTextFile } from "@gpve/kit/atomic-file.ts";

const MIB = 1024 * 1024;

export function howFrozen(
  paged: readonly (number | undefined)[],
  swaps = readTextFile("/proc/swaps"),
): string {
  const known = paged.filter((bytes) => bytes !== undefined);
  const mib = Math.round(known.reduce((sum, bytes) => sum + bytes, 0) / MIB);
  const hasSwap = (swaps ?? "").trim().split("\n").length > 1;
  if (known.length === 0)
    return "its processes stand still (SIGSTOP); this kernel pages nothing out on demand";
  return hasSwap
    ? `its processes stand still (SIGSTOP) and ${mib} MiB were paged out`
    : `its processes stand still (SIGSTOP); ${mib} MiB of file pages went, and the rest stays in memory: this host has no swap`;
}
