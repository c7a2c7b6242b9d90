import { AppError } from "@gpve/contracts/errors.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";

/** Before the machine goes down: guests that are not under HA, in their order, those that take too long by force. */
export async function stopBeforePower(
  engine: Pick<OperationEngine, "submit" | "wait">,
  node: string,
): Promise<void> {
  const { operation } = await engine.submit({
    type: "stopall",
    resources: [`node/${node}/all`],
    args: {},
    actor: "root@pam",
  });
  const { state, error } = await engine.wait(operation.id);
  if (state !== "done") throw new AppError("operation.failed", error ?? `stopall: ${state}`);
}
