// A VM's configuration as it is, and the names in it that are free.
import { isObject } from "@gpve/client/response-error.ts";
import type { PveSession } from "../command-entry.ts";
import { valueText } from "../output/value-text.ts";

export async function readGuestConfig(
  session: PveSession,
  vmid: string,
): Promise<Readonly<Record<string, string>>> {
  const { pve } = await session.client();
  const path = "/nodes/{node}/qemu/{vmid}/config";
  const { data } = await pve.call("GET", path, { node: await session.node(), vmid });
  const entries = Object.entries(isObject(data) ? data : {});
  return Object.fromEntries(entries.map(([key, value]) => [key, valueText(value)]));
}

/** "local:100/vm-100-disk-0.qcow2" of "local:100/vm-100-disk-0.qcow2,size=1G" */
export function volumeOfDrive(drive: string): string {
  return (drive.split(",")[0] ?? "").replace(/^file=/, "");
}

export function freeUnused(config: Readonly<Record<string, string>>): string {
  let at = 0;
  while (config[`unused${at}`] !== undefined) at += 1;
  return `unused${at}`;
}
