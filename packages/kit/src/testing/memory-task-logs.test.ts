import { describe } from "vitest";
import { MemoryTaskLogs } from "./memory-task-logs.ts";
import { taskLogConformance } from "./task-log-conformance.ts";

describe("task logs in memory", () => {
  taskLogConformance(() => {
    const logs = new MemoryTaskLogs();
    return { logs, read: async (id) => logs.lines.get(id) };
  });
});
