// Whether a machine runs another system than the file asks for.
import type { Machine } from "../cluster/machine.ts";
import { type Desired, wantedTalos } from "./desired.ts";
import type { Configured } from "./world.ts";

export const isOutdated = (desired: Desired, { version }: Configured): boolean =>
  version !== wantedTalos(desired);

/** One of the file's that stays as it is, but for its system. */
export function machineToUpgrade(desired: Desired, name: string): Machine | undefined {
  const isLeaving = desired.replacing[0] === name || desired.resetting[0] === name;
  return isLeaving ? undefined : desired.machines.find((each) => each.name === name);
}
