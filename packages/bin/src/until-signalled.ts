import { systemClock } from "@gpve/kit/clock.ts";
import { spareMemory } from "./spare-memory.ts";

/** Waits for SIGTERM or SIGINT, then stops in order. A second signal does not wait any longer. Memory is spared meanwhile. */
export function untilSignalled(stop: () => Promise<void>): Promise<number> {
  const spareNoMore = spareMemory({ clock: systemClock });
  return new Promise((resolve, reject) => {
    let stopping = false;
    const onSignal = (): void => {
      if (stopping) process.exit(130);
      stopping = true;
      spareNoMore();
      stop().then(() => resolve(0), reject);
    };
    process.on("SIGTERM", onSignal);
    process.on("SIGINT", onSignal);
  });
}
