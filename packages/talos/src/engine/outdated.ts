// Whether a machine runs another system than the file asks for: another version, or an image of other parts.
import type { Machine } from "../cluster/machine.ts";
import { imageFile } from "../image/image-file.ts";
import type { SchematicChange } from "../plan/plan-steps.ts";
import { type Desired, wantedTalos } from "./desired.ts";
import type { Configured } from "./world.ts";

export const isOutdated = (desired: Desired, machine: Machine, talos: Configured): boolean =>
  talos.version !== wantedTalos(desired) || schematicChange(desired, machine, talos) !== undefined;

/** undefined: it is the file's, or the image was made by no factory. */
export function schematicChange(
  { cluster }: Desired,
  { arch, extensions }: Machine,
  { schematic: from }: Configured,
): SchematicChange | undefined {
  const to = imageFile(cluster, arch, extensions).schematic;
  return from === undefined || from === to ? undefined : { from, to };
}

/** One of the file's that stays as it is, but for its system. */
export function machineToUpgrade(desired: Desired, name: string): Machine | undefined {
  const isLeaving = desired.replacing[0] === name || desired.resetting[0] === name;
  return isLeaving ? undefined : desired.machines.find((each) => each.name === name);
}
