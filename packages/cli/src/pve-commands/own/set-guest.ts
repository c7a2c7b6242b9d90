// `qm set`: what PVE says of it, and disks that are made as a task whose log is shown.
import type { PveRouteKey } from "@gpve/contracts/pve/route-key.ts";
import { isDriveKey } from "@gpve/domain/vm/config/keys.ts";
import type { OptionValues } from "../command-entry.ts";

const NEW_DISK = /^(?:file=)?[^:,]+:(?:\d+(?:\.\d+)?|cloudinit)(?:,|$)|[,=]import-from=/;

export function makesDisks(values: OptionValues): PveRouteKey | undefined {
  const isNew = Object.entries(values).some(([key, text]) => isDriveKey(key) && NEW_DISK.test(String(text)));
  return isNew ? "POST /nodes/{node}/qemu/{vmid}/config" : undefined;
}

/** "update VM 100: -cores 2 -memory 512" */
export function changeText(values: OptionValues): string {
  const words = Object.keys(values)
    .filter((key) => key !== "vmid" && key !== "digest")
    .toSorted()
    .map((key) => `-${key} ${key === "cipassword" ? "<hidden>" : String(values[key])}`);
  return `update VM ${String(values["vmid"])}: ${words.join(" ")}`;
}
