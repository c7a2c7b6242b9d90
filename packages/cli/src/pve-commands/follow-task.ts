// Work that a command started: its log is shown as it is written, and the command ends when it does.
import { AppError } from "@gpve/contracts/errors.ts";
import type { PveSession } from "./command-entry.ts";

/** Fails with the task's own words. */
export async function followTask(
  session: PveSession,
  upid: string,
  line: (text: string) => void = session.line,
): Promise<void> {
  const client = await session.client();
  // A line is held back until the next: the last one may be why the task failed, which is said at the end.
  let held: string | undefined;
  const say = (): void => {
    if (held !== undefined) line(held);
  };
  const outcome = await client.waitTask(upid, {
    signal: session.io.signal,
    // How it ended is said by the command itself.
    onLog: (text) => {
      if (/^TASK (?:OK$|ERROR: |WARNINGS: )/.test(text)) return;
      say();
      held = text;
    },
  });
  if (outcome.ok || held !== outcome.exitstatus) say();
  if (!outcome.ok) throw new AppError("operation.failed", outcome.exitstatus, { pveStatus: 500 });
}
