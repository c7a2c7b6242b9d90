// Who reads from a template's disks. Storages whose copies stand alone name nobody.
import type { Driver, GuestConfig, GuestPlace } from "./driver.ts";

/** VMIDs of guests that read from a template's disks, wherever these lie. */
export async function clonesOf(
  driver: Driver,
  { host, vmid }: GuestPlace,
  config: GuestConfig,
): Promise<readonly number[]> {
  const disks = Object.entries(config).filter(([key]) =>
    /^(scsi|virtio|sata|ide|efidisk|tpmstate)\d+$/.test(key),
  );
  const storages = new Set(
    disks.flatMap(([, value]) => /^([^:,]+):(?:[^,]*\/)?base-/.exec(value)?.[1] ?? []),
  );
  const found = await Promise.all([...storages].map((storage) => driver.linkedClones(host, storage)));
  return [
    ...new Set(found.flat().flatMap(({ template, guest }) => (template === vmid ? [guest] : []))),
  ].toSorted((a, b) => a - b);
}
