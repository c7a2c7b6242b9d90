import type { TaskLog, TaskLogSink } from "../operation/ports.ts";

/** Task logs in memory, for tests. */
export class MemoryTaskLogs implements TaskLogSink {
  readonly lines = new Map<string, string[]>();

  open(id: string): TaskLog {
    const lines = (): string[] => {
      const known = this.lines.get(id) ?? [];
      this.lines.set(id, known);
      return known;
    };
    return {
      append: (line) => void lines().push(line),
      flush: () => Promise.resolve(),
      finish: async (lastLine) => {
        if (!(lines().at(-1) ?? "").startsWith("TASK ")) lines().push(lastLine);
      },
    };
  }

  remove(id: string): Promise<void> {
    this.lines.delete(id);
    return Promise.resolve();
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
