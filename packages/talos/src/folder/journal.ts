// What was done, line by line, on disk before the next thing is begun: for people who want to know, and for expected
// times. What is decided does not depend on it: truth is observed.
import { appendFileSync, closeSync, fsyncSync, mkdirSync, openSync } from "node:fs";
import { dirname, join } from "node:path";
import { readTextFile } from "@gpve/kit/atomic-file.ts";
import { lockPath } from "./lock-file.ts";

export interface JournalLine {
  readonly at: string;
  /** The same for all lines of one run. */
  readonly run: string;
  readonly event: "run" | "begin" | "done" | "failed" | "end";
  /** "guest.create prod-cp-1" */
  readonly step?: string;
  readonly ms?: number;
  readonly note?: string;
}

export interface RunJournal {
  append(line: JournalLine): void;
  lines(): readonly JournalLine[];
}

/** Steps that were begun and of which nobody wrote the end: who did them was stopped. A run that came to its end saw to all. */
export function interrupted(lines: readonly JournalLine[]): ReadonlySet<string> {
  const open = new Set<string>();
  for (const { event, step } of lines) {
    if (event === "end") open.clear();
    if (step === undefined) continue;
    if (event === "begin") open.add(step);
    else open.delete(step);
  }
  return open;
}

export const journalPath = (folder: string, cluster: string): string =>
  join(dirname(lockPath(folder, cluster)), "journal.ndjson");

export class FileJournal implements RunJournal {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  append(line: JournalLine): void {
    mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 });
    const file = openSync(this.#path, "a", 0o600);
    try {
      appendFileSync(file, `${JSON.stringify(line)}\n`);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
  }

  /** A last line that a crash cut short is left out. */
  lines(): readonly JournalLine[] {
    return (readTextFile(this.#path) ?? "").split("\n").flatMap((text) => {
      try {
        return text === "" ? [] : [JSON.parse(text) as JournalLine];
      } catch {
        return [];
      }
    });
  }
}
