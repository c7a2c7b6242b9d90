// Parsers of the kernel's counters. Pure; every number the kernel leaves out counts as zero.

export interface CpuTimes {
  readonly total: number;
  readonly idle: number;
  readonly iowait: number;
}

/** First line of /proc/stat, in clock ticks since boot. Guest time is already part of user time. */
export function parseCpuTimes(text: string): CpuTimes {
  const line = /^cpu\s+(.*)$/m.exec(text)?.[1] ?? "";
  const [user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0] = line
    .split(/\s+/)
    .map(toNumber);
  return { total: user + nice + system + idle + iowait + irq + softirq + steal, idle, iowait };
}

/** Shares between two readings, each from 0 to 1. */
export function cpuShares(before: CpuTimes, after: CpuTimes): { cpu: number; wait: number } {
  const total = after.total - before.total;
  if (total <= 0) return { cpu: 0, wait: 0 };
  const share = (ticks: number): number => Math.min(1, Math.max(0, ticks / total));
  const wait = after.iowait - before.iowait;
  return { cpu: share(total - (after.idle - before.idle) - wait), wait: share(wait) };
}

export interface MemoryInfo {
  readonly memory: { total: number; used: number; free: number; available: number };
  readonly swap: { total: number; used: number; free: number };
  readonly ksmShared: number;
}

/** /proc/meminfo; bytes. Used = what cannot be had without swapping. */
export function parseMeminfo(text: string): Omit<MemoryInfo, "ksmShared"> {
  const kib = new Map<string, number>();
  for (const [, key = "", value = ""] of text.matchAll(/^(\S+):\s+(\d+)/gm))
    kib.set(key, Number(value) * 1_024);
  const total = kib.get("MemTotal") ?? 0;
  const free = kib.get("MemFree") ?? 0;
  const available = Math.min(total, kib.get("MemAvailable") ?? free);
  const swapTotal = kib.get("SwapTotal") ?? 0;
  const swapFree = Math.min(swapTotal, kib.get("SwapFree") ?? 0);
  return {
    memory: { total, used: total - available, free, available },
    swap: { total: swapTotal, used: swapTotal - swapFree, free: swapFree },
  };
}

export function parseLoadavg(text: string): readonly [number, number, number] {
  const [one = 0, five = 0, fifteen = 0] = text.split(" ").map(toNumber);
  return [one, five, fifteen];
}

export function parseUptime(text: string): number {
  return Math.floor(toNumber(text.split(" ")[0] ?? ""));
}

/** /proc/net/dev: sums of the interfaces that are hardware by name (what PVE counts). */
export function parseNetDev(text: string): { received: number; sent: number } {
  let received = 0;
  let sent = 0;
  for (const [, name = "", rest = ""] of text.matchAll(/^\s*([^\s:]+):\s*(.*)$/gm)) {
    if (!/^(eth\d+|en[^:.]+|ib[^:.]+)$/.test(name)) continue;
    const fields = rest.split(/\s+/).map(toNumber);
    received += fields[0] ?? 0;
    sent += fields[8] ?? 0;
  }
  return { received, sent };
}

/** /proc/pressure/*: the 10 s average of "some" or "full" in percent; undefined when the kernel has none. */
export function parsePressure(text: string | undefined, kind: "some" | "full"): number | undefined {
  const found = new RegExp(`^${kind} avg10=([0-9.]+)`, "m").exec(text ?? "")?.[1];
  return found === undefined ? undefined : toNumber(found);
}

function toNumber(text: string): number {
  const value = Number(text);
  return Number.isFinite(value) && text.trim() !== "" ? value : 0;
}
