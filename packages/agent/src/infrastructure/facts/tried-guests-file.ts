import { join } from "node:path";

/**
 * Where it is kept what running guests showed. To root it is true of the machine, whatever data folder a gpve has: trying
 * takes seconds of a core where KVM does not work. /run is emptied at a boot, and nobody else writes there.
 */
export function triedGuestsFile(folder: string): string {
  return process.getuid?.() === 0 ? "/run/gpve/tried-guests.json" : join(folder, "tried-guests.json");
}
