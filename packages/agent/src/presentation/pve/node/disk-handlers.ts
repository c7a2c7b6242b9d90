// PVE's methods about the host's disks: reads of what is really there. Making something on a disk comes later.
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { ignore } from "@gpve/kit/background.ts";

type Row = Readonly<Record<string, unknown>>;

export interface DiskHandlerDeps {
  readonly disks: {
    list(options: {
      readonly smart: boolean;
      readonly partitions: boolean;
    }): Promise<
      ReadonlyMap<string, Row & { readonly used?: string; readonly osdid: number; readonly gpt: boolean }>
    >;
    smart(devpath: string, healthOnly: boolean): Promise<Row & { readonly health?: string }>;
  };
  readonly volumes: {
    volumeGroups(): Promise<Row>;
    thinPools(): Promise<readonly Row[]>;
    zpools(): Promise<readonly Row[]>;
    zpool(name: string): Promise<Row>;
    directories(): readonly Row[];
  };
  /** The block device a path leads to; throws in PVE's words. */
  readonly blockDevice: (path: string) => string;
}

export function createHostDiskHandlers({ disks, volumes, blockDevice }: DiskHandlerDeps): PveHandlers {
  return {
    "GET /nodes/{node}/disks/list": async ({ type, skipsmart, "include-partitions": partitions }) => {
      const found = await disks.list({ smart: skipsmart !== true, partitions: partitions === true });
      return [...found.values()].filter(({ used, osdid, gpt }) => {
        if (type === "unused") return used === undefined;
        if (type !== "journal_disks") return true;
        return osdid < 0 && (used === undefined || used === "LVM" || (used === "partitions" && gpt));
      });
    },
    "GET /nodes/{node}/disks/smart": async ({ disk, healthonly }) => {
      const device = blockDevice(disk);
      const found = await smartOrNothing(() => disks.smart(device, healthonly === true));
      const health = found.health ?? "UNKNOWN";
      return healthonly === true ? { health } : { ...found, health };
    },
    "GET /nodes/{node}/disks/directory": () => volumes.directories(),
    "GET /nodes/{node}/disks/lvm": () => volumes.volumeGroups(),
    "GET /nodes/{node}/disks/lvmthin": () => volumes.thinPools(),
    "GET /nodes/{node}/disks/zfs": () => volumes.zpools(),
    "GET /nodes/{node}/disks/zfs/{name}": ({ name }) => volumes.zpool(name),
  };
}

/** A disk that cannot be asked has no known health; that is no error. */
async function smartOrNothing(
  ask: () => Promise<Row & { readonly health?: string }>,
): Promise<Row & { readonly health?: string }> {
  try {
    return await ask();
  } catch (err) {
    ignore(err, "shown as UNKNOWN");
    return {};
  }
}
