// What a process has used so far, from /proc: unlike wall time, it does not depend on who else is on the machine.
import { readFileSync } from "node:fs";

const TICKS_PER_SECOND = 100;

export function cpuSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

export function residentMiB(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "latin1");
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) / 1024;
}
