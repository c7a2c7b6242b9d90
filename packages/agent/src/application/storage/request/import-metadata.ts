// What a foreign VM on a storage would become, for clients that then create it.
import { given } from "@gpve/contracts/given.ts";
import { isAppError } from "@gpve/contracts/errors.ts";
import { storageRefused } from "@gpve/domain/storage/failures.ts";
import type { OvfDisk, OvfMachine } from "@gpve/domain/storage/ovf.ts";
import type { StoragePlugin } from "@gpve/domain/storage/plugin.ts";

/** Disks beside an OVF are there to be measured; of those in an OVA only the description is believed. */
export async function withFileSizes(
  plugin: Pick<StoragePlugin, "info" | "path">,
  disks: readonly OvfDisk[],
): Promise<OvfDisk[]> {
  const measured: OvfDisk[] = [];
  for (const disk of disks) {
    const volname = `import/${disk.file}`;
    try {
      measured.push({ ...disk, size: (await plugin.info(volname)).size });
    } catch (err) {
      if (!isAppError(err, "object.not_found")) throw err;
      throw storageRefused(
        `error parsing ${disk.file}, file seems not to exist at ${plugin.path(volname)}`,
        err,
      );
    }
  }
  return measured;
}

/** What a client needs to create the VM that an OVF describes. */
export function importMetadata(
  { config, disks, nets }: OvfMachine,
  { storage, volname, isArchive }: { storage: string; volname: string; isArchive: boolean },
): Record<string, unknown> {
  const efi = config["bios"] === "ovmf";
  return {
    type: "vm",
    source: volname,
    "create-args": config,
    disks: {
      ...Object.fromEntries(
        disks.map(({ address, file, size }) => [
          address,
          {
            volid: isArchive ? `${storage}:${volname}/${file}` : `${storage}:import/${file}`,
            ...given({ size }),
          },
        ]),
      ),
      ...(efi ? { efidisk0: 1 } : {}),
    },
    net: nets,
    warnings: [
      ...(isArchive ? [{ type: "ova-needs-extracting" }] : []),
      ...(efi ? [{ type: "efi-state-lost", key: "bios", value: "ovmf" }] : []),
    ],
  };
}
