import { given } from "@gpve/contracts/given.ts";
// What udev knows of a block device.

export interface UdevDisk {
  /** Not always /dev/NAME: some controllers have a folder of their own. */
  readonly devpath: string;
  readonly serial: string;
  readonly gpt: boolean;
  /** -1: it does not say. */
  readonly rpm: number;
  readonly usb: boolean;
  readonly model?: string;
  readonly wwn: string;
  readonly byIdLink?: string;
}

/** Reads `udevadm info --query all`; undefined for what is no disk, CD drives among them. */
export function parseUdev(output: string): UdevDisk | undefined {
  const property = (name: string): string | undefined =>
    new RegExp(`^E: ${name}=(.*)$`, "m").exec(output)?.[1];
  if (!/^(?:disk|partition)$/.test(property("DEVTYPE") ?? "") || /^E: ID_CDROM/m.test(output))
    return undefined;
  const devpath = property("DEVNAME");
  if (devpath === undefined || devpath === "") return undefined;
  const model = property("ID_MODEL");
  const link = property("DEVLINKS")
    ?.split(" ")
    .find((each) => /^\/dev\/disk\/by-id\/(?:ata|scsi|nvme(?!-eui))/.test(each));
  return {
    devpath,
    serial: /^\s*(\S+)$/.exec(property("ID_SERIAL_SHORT") ?? "")?.[1] ?? "unknown",
    gpt: property("ID_PART_TABLE_TYPE") === "gpt",
    rpm: Number(/^\d+$/.exec(property("ID_ATA_ROTATION_RATE_RPM") ?? "")?.[0] ?? -1),
    usb: property("ID_BUS") === "usb",
    wwn: property("ID_WWN") ?? "unknown",
    ...(model === undefined || model === "" ? {} : { model }),
    ...given({ byIdLink: link }),
  };
}
