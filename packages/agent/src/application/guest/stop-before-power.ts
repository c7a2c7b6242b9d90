import { AppError } from "@gpve/contracts/errors.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";

/** What somebody waits for, a disk that is moved or a hook that hangs, may keep a guest from its turn for hours: it ends with the
 * machine then. */
const STOP_MS = 15 * 60_000;

/** Before the machine goes down: guests that are not under HA, in their order, those that take too long by force. */
export async function stopBeforePower(
  engine: Pick<OperationEngine, "submit" | "wait">,
  node: string,
  stopMs = STOP_MS,
): Promise<void> {
  const { operation } = await engine.submit({
    type: "stopall",
    resources: [`node/${node}/all`],
    args: {},
    actor: "root@pam",
  });
  const { state, error } = await engine.wait(operation.id, AbortSignal.timeout(stopMs));
  if (state !== "done") throw new AppError("operation.failed", error ?? `stopall: ${state}`);
}
