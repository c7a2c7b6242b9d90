// What an existing guest is brought to. Disks and devices that it lacks are added, and disks grow; what is there and should
// be elsewhere, or of another kind, stays: only a new machine gets that.
import type { Cluster } from "../cluster/cluster.ts";
import type { Machine } from "../cluster/machine.ts";
import type { GuestConfig } from "../driver/driver.ts";
import { compareGuest, diskGib } from "./compare-guest.ts";
import { cloudInitDrive, guestDevices, guestSettings, SYSTEM_DISK } from "./guest-config.ts";
import type { Change } from "./plan-steps.ts";

type Hardware = Pick<Machine, "size">;

export function guestChanges(cluster: Cluster, machine: Machine, actual: GuestConfig): readonly Change[] {
  const lacking = Object.entries(guestDevices(machine)).filter(([key]) => actual[key] === undefined);
  return [
    ...compareGuest(guestSettings(cluster, machine), actual),
    ...lacking.map(([key, to]) => ({ key, from: null, to })),
  ];
}

/** The machine with no more devices than its guest lacks: what is still to be made of it. */
export function lackingDevices<M extends Hardware>(machine: M, actual: GuestConfig): M {
  const { size } = machine;
  const extraDisks = size.extraDisks.filter((_disk, at) => actual[`scsi${at + 1}`] === undefined);
  const pci = size.pci.filter((_device, at) => actual[`hostpci${at}`] === undefined);
  return { ...machine, size: { ...size, extraDisks, pci } };
}

export interface DiskSize {
  readonly disk: string;
  readonly gib: number;
  readonly wantedGib: number;
}

/** Of disks that lie where the file wants them. */
export function diskSizes({ size }: Hardware, actual: GuestConfig): readonly DiskSize[] {
  const extra = size.extraDisks
    .map(({ gib, storage }, at) => ({ disk: `scsi${at + 1}`, wantedGib: gib, storage }))
    .filter(({ disk, storage }) => storageOf(actual[disk]) === storage);
  return [{ disk: SYSTEM_DISK, wantedGib: size.diskGiB }, ...extra].flatMap(({ disk, wantedGib }) => {
    const gib = diskGib(actual[disk]);
    return gib === undefined ? [] : [{ disk, gib, wantedGib }];
  });
}

/** What no change of an existing guest brings about; in words. */
export function unchangeable(cluster: Cluster, machine: Machine, actual: GuestConfig): readonly string[] {
  const { size } = machine;
  const storage = cluster.providers.find(({ name }) => name === machine.provider)?.storage.vm;
  const drive = Object.keys(actual).find(
    (key) => /^(?:ide|sata|scsi)\d+$/.test(key) && /:(?:.*-)?cloudinit(?:\.|,|$)/.test(actual[key] ?? ""),
  );
  const found: readonly (readonly [string, string | undefined, string | undefined])[] = [
    ["bios", actual["bios"], size.bios],
    ["the cloud-init drive", drive, cloudInitDrive(machine)],
    [`the storage of ${SYSTEM_DISK}`, storageOf(actual[SYSTEM_DISK]), storage],
    ...size.extraDisks.map(
      (disk, at) =>
        [`the storage of scsi${at + 1}`, storageOf(actual[`scsi${at + 1}`]), disk.storage] as const,
    ),
    ...size.pci.map(
      ({ mapping }, at) =>
        [`the mapping of hostpci${at}`, mappingOf(actual[`hostpci${at}`]), mapping] as const,
    ),
  ];
  return found.flatMap(([what, from, to]) =>
    from === undefined || to === undefined || from === to ? [] : [`${what} is ${from}, the file says ${to}`],
  );
}

const storageOf = (disk = ""): string | undefined => /^([^:,]+):/.exec(disk)?.[1];
const mappingOf = (device = ""): string | undefined => /(?:^|,)mapping=([^,]+)/.exec(device)?.[1];
