import type { Logger } from "@gpve/kit/logger.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";

/** Once per boot of the machine, when operations run. */
export async function startAfterBoot({
  node,
  wasBooted,
  engine,
  log,
}: {
  readonly node: string;
  /** Since this was asked last. */
  readonly wasBooted: () => boolean;
  readonly engine: Pick<OperationEngine, "submit">;
  readonly log: Logger;
}): Promise<void> {
  if (!wasBooted()) return;
  log.info({}, "the machine was booted: starting the guests that start with it");
  const resources = [`node/${node}/all`];
  await engine.submit({ type: "startall", resources, args: {}, actor: "root@pam" });
}
