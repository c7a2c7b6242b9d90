import type { QemuProcess } from "@gpve/domain/vm/qemu-processes.ts";

/** A guest that stands still goes on, wherever it stopped. */
export async function continueGuest({ qmp }: QemuProcess, signal: AbortSignal): Promise<void> {
  const { status } = await qmp.execute("query-status", undefined, { signal });
  if (status === "running") return;
  // It switched itself off while a backup held its process.
  if (status === "shutdown") await qmp.execute("system_reset", undefined, { signal });
  await qmp.execute(status === "suspended" ? "system_wakeup" : "cont", undefined, { signal });
}
