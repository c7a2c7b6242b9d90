// What an agent finds when it begins: guests that run, guests that ended while no agent ran, helpers without a guest.
import type { GuestProcess, GuestProcesses } from "@gpve/domain/guest/guest-processes.ts";
import type { Logger } from "@gpve/kit/logger.ts";

export interface AdoptPorts {
  readonly processes: GuestProcesses;
  readonly log: Logger;
}

/** Returns what runs. */
export async function adoptGuests({ processes, log }: AdoptPorts): Promise<readonly GuestProcess[]> {
  const { running, ended, unreachable } = await processes.adopt();
  for (const { label, error } of unreachable)
    log.error({ err: error.message, resource: label }, "a guest runs but cannot be reached");
  await stopOrphans(processes, log);
  for (const { id, label, exit } of ended) {
    log.warn({ resource: label, cause: exit.cause }, "a guest ended while no agent ran");
    await processes.forget(id);
  }
  if (running.length > 0) log.info({ guests: running.length }, "adopted running guests");
  return running;
}

/** Helpers end with their guest; one whose guest ended while nobody looked is ended now. */
async function stopOrphans(processes: GuestProcesses, log: Logger): Promise<void> {
  for (const helper of processes.list()) {
    const [guest = "", what] = helper.id.split("-");
    if (what === undefined || processes.get(guest) !== undefined) continue;
    log.info({ resource: helper.label }, "its guest has ended: it is stopped");
    await helper.stop();
  }
}
