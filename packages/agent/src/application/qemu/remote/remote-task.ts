import { AppError } from "@gpve/contracts/errors.ts";
import type { RemoteCluster } from "@gpve/domain/vm/migrate/remote-cluster.ts";
import type { Clock } from "@gpve/kit/clock.ts";

const POLL_MS = 250;

/** Throws what a task of another cluster ended with, unless that is well. */
export async function waitForTask(
  { clock }: { readonly clock: Pick<Clock, "sleep"> },
  remote: RemoteCluster,
  upid: string,
  signal?: AbortSignal,
): Promise<void> {
  const node = upid.split(":")[1] ?? "";
  const path = `/nodes/${node}/tasks/${encodeURIComponent(upid)}/status`;
  for (;;) {
    const { status, exitstatus } = ((await remote.call("GET", path)) ?? {}) as Record<string, string>;
    if (status === "stopped" && /^(?:OK|WARNINGS: \d+)$/.test(exitstatus ?? "")) return;
    if (status === "stopped") throw new RemoteTaskFailed(exitstatus ?? "nothing");
    await clock.sleep(POLL_MS, signal);
  }
}

export class RemoteTaskFailed extends AppError {
  constructor(said: string) {
    super("operation.failed", `the other cluster says: ${said}`, { pveStatus: 500 });
  }
}
