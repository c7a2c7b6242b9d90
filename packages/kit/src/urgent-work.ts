// Processor time on a busy machine: while a guest waits for what this process does, it goes before others. What is started
// meanwhile does not: a guest that is started beside one that moves is as good as any other.
import { getPriority, setPriority } from "node:os";
import { ignore } from "./background.ts";

/** About three times the time of others who want all they can get. */
const URGENT = -5;

let working = 0;
let usual: number | undefined;

/** Until what it returns is called. Without the right to it nothing changes. */
export function beginUrgentWork(): () => void {
  if (working++ === 0) hurry();
  let isOver = false;
  return () => {
    if (isOver) return;
    isOver = true;
    if (--working === 0) slowDown();
  };
}

/** Starts a process, which inherits how urgent its parent is at that moment. */
export function startUnhurried<T>(start: () => T): T {
  if (usual === undefined) return start();
  slowDown();
  try {
    return start();
  } finally {
    hurry();
  }
}

/** Starts a process that goes before others, or after them, for as long as it runs (nice). Without the right to it as any other. */
export function startAt<T>(priority: number, start: () => T): T {
  const before = getPriority();
  try {
    setPriority(priority);
  } catch (err) {
    ignore(err, "only root may");
    return start();
  }
  try {
    return start();
  } finally {
    setPriority(before);
  }
}

function hurry(): void {
  try {
    const before = getPriority();
    if (before <= URGENT) return;
    setPriority(URGENT);
    usual = before;
  } catch (err) {
    ignore(err, "only root may");
  }
}

function slowDown(): void {
  if (usual === undefined) return;
  setPriority(usual);
  usual = undefined;
}
