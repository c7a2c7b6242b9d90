// Controllers and scheduler take their time before they need an API server, and then wait ten seconds for it: they are started
// when it speaks, if only to say that it is not ready. Who has given up by the time that it is gets another start.
import { CONTROL_PLANE_PARTS, type ControlPlanePart } from "@gpve/domain/vcluster/cluster-part.ts";
import { ignore } from "@gpve/kit/background.ts";

export interface StartOthersSteps {
  readonly startPart: (part: ControlPlanePart) => Promise<void>;
  /** Resolves when the API server is ready; `speaks` is called as soon as it answers. */
  readonly ready: (speaks?: () => void) => Promise<void>;
  /** For whom the API counts and nothing else: called when it is ready, before the others take their share. */
  readonly opened?: (() => Promise<void>) | undefined;
}

export async function startOthers({ startPart, ready, opened }: StartOthersSteps): Promise<void> {
  const start = async (): Promise<void> => {
    await Promise.all(CONTROL_PLANE_PARTS.slice(1).map(startPart));
  };
  let early: Promise<void> | undefined;
  const begin = (): void => {
    early ??= start();
    early.catch((err: unknown) => ignore(err, "told below"));
  };
  await ready(opened === undefined ? begin : undefined);
  await opened?.();
  await early;
  await start();
}
