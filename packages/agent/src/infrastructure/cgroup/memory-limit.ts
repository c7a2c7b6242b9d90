// Memory and, beside it, swap: as much of it as of memory, and no more. Otherwise whoever may have no more memory of the
// host takes its swap instead.
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readTextFile } from "@gpve/kit/atomic-file.ts";

const NAMES = {
  1: { memory: "memory.limit_in_bytes", swap: "memory.memsw.limit_in_bytes", none: "-1" },
  2: { memory: "memory.max", swap: "memory.swap.max", none: "max" },
} as const;

export function memoryFile(version: 1 | 2): string {
  return NAMES[version].memory;
}

/** 0 = no limit. */
export function setMemoryLimit(folder: string, version: 1 | 2, bytes: number): void {
  const { memory, swap, none } = NAMES[version];
  const memoryText = bytes === 0 ? none : String(bytes);
  // Version 1 counts both together, and lets them never be less than memory alone.
  const swapText = bytes === 0 ? none : String(version === 1 ? bytes * 2 : bytes);
  const setMemory = (): void => writeFileSync(join(folder, memory), memoryText);
  // Kernels that do not count swap have no such file.
  const setSwap = (): void => {
    if (existsSync(join(folder, swap))) writeFileSync(join(folder, swap), swapText);
  };
  const isMore = bytes === 0 || bytes > limitIn(join(folder, memory));
  for (const set of isMore ? [setSwap, setMemory] : [setMemory, setSwap]) set();
}

/** Infinity = nobody has limited it: "max", or a number beyond every memory. */
export function limitIn(file: string): number {
  const text = (readTextFile(file) ?? "").trim();
  const limit = text === "" || text === "max" ? Number.POSITIVE_INFINITY : Number(text);
  return limit > Number.MAX_SAFE_INTEGER ? Number.POSITIVE_INFINITY : limit;
}
