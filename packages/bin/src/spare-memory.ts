// V8 keeps room for several times what lives in a process: collections are rare, which serves one that is busy. One that is not
// would keep for good what it needed once, on a machine whose memory is for guests. So it spares memory while it has little to do:
// then room is a third more than what lives, and collections cost little because little happens.
import { setFlagsFromString } from "node:v8";
import type { Clock } from "@gpve/kit/clock.ts";

export interface SpareMemoryDeps {
  readonly clock: Pick<Clock, "after" | "monotonic">;
  /** CPU time of this process. */
  readonly cpuMs?: () => number;
  readonly setFlag?: (flag: string) => void;
}

const LOOK_MS = 5_000;
/** Of a processor. */
const BUSY_SHARE = 0.25;

/** Until what is returned is called. */
export function spareMemory({
  clock,
  cpuMs = ownCpuMs,
  setFlag = setFlagsFromString,
}: SpareMemoryDeps): () => void {
  let isSparing = false;
  let [at, used] = [clock.monotonic(), cpuMs()];
  let stop = (): void => undefined;
  const look = (): void => {
    const [now, all] = [clock.monotonic(), cpuMs()];
    const isQuiet = all - used < BUSY_SHARE * (now - at);
    [at, used] = [now, all];
    if (isQuiet !== isSparing) setFlag(isQuiet ? "--memory-saver-mode" : "--no-memory-saver-mode");
    isSparing = isQuiet;
    stop = clock.after(LOOK_MS, look);
  };
  stop = clock.after(LOOK_MS, look);
  return () => stop();
}

function ownCpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}
