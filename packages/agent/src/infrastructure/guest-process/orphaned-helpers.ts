// Helpers end with their guest. One whose guest ended while no agent ran is ended by the next agent.
import type { GuestProcesses } from "@gpve/domain/guest/guest-processes.ts";
import type { Logger } from "@gpve/kit/logger.ts";

export async function stopOrphanedHelpers(
  processes: Pick<GuestProcesses, "list" | "get">,
  log: Logger,
): Promise<void> {
  for (const helper of processes.list()) {
    const [guest = "", what] = helper.id.split("-");
    if (what === undefined || processes.get(guest) !== undefined) continue;
    log.info({ resource: helper.label }, "its guest has ended: it is stopped");
    await helper.stop();
  }
}
