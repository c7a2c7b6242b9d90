// Finds or builds the program that holds each guest.
import { messageOf } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { supervisorOf, type SupervisorSource } from "./build.ts";

export interface SupervisorParts {
  /** The guest supervisor, ready or to be built. */
  readonly supervisor: SupervisorSource;
  readonly data: Pick<DataDir, "file">;
  readonly exec: Exec;
  readonly log: Logger;
}

/** Without a supervisor no guest starts, and everything else works: whoever starts one is told why. */
export async function findSupervisor(
  parts: SupervisorParts,
): Promise<{ path: string; missing?: Promise<never> }> {
  try {
    return { path: await supervisorOf(parts.supervisor, parts) };
  } catch (err) {
    parts.log.error({ err: messageOf(err) }, "no guest can start");
    const missing = Promise.reject<never>(err instanceof Error ? err : new Error(String(err)));
    missing.catch((reason: unknown) => ignore(reason, "told to whoever starts a guest"));
    return { path: "gpve-supervisor", missing };
  }
}
