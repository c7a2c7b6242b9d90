import { systemClock } from "../clock.ts";
import { OperationEngine } from "../operation/engine.ts";
import type { EngineOptions } from "../operation/engine.ts";
import { MemoryJournal } from "./memory-journal.ts";
import { MemoryTaskLogs } from "./memory-task-logs.ts";

export interface TestEngine {
  readonly engine: OperationEngine;
  readonly journal: MemoryJournal;
  readonly logs: MemoryTaskLogs;
}

/** An engine in memory; `options` replaces any part. Call `start` after registering. */
export function testEngine(
  options: Partial<EngineOptions> & { readonly journal?: MemoryJournal } = {},
): TestEngine {
  const journal = options.journal ?? new MemoryJournal();
  const logs = options.logs instanceof MemoryTaskLogs ? options.logs : new MemoryTaskLogs();
  const engine = new OperationEngine({
    owner: "test",
    clock: systemClock,
    logger: { warn: () => {}, error: () => {} },
    nameOf: ({ sequence, type, subject, actor }) => `T:${sequence}:${type}:${subject}:${actor}`,
    undoBackoffMs: 1,
    logs,
    ...options,
    journal,
  });
  return { engine, journal, logs };
}
