// The host's disks as PVE lists them: what the kernel and udev say, how healthy they are, who uses them.
import { given } from "@gpve/contracts/given.ts";
import { diskOwners, type CephVolumes, type DiskOwners, type OwnerReports } from "./disk-owners.ts";
import { lifeLeft, parseSmart, type SmartData } from "./smart-data.ts";
import { parseUdev, type UdevDisk } from "./udev-info.ts";

/** The host, as far as disks go. Tests have one of files. */
export interface DiskHost {
  /** Names in /sys/block. */
  blockDevices(): readonly string[];
  /** First line of a file below /sys/block, without spaces around it. */
  sysLine(path: string): string | undefined;
  /** Names in a folder below /sys/block; none when it is not there. */
  sysNames(path: string): readonly string[];
  /** Whether the disk comes over iSCSI. */
  isRemote(name: string): boolean;
  udev(name: string): Promise<string>;
  owners(): Promise<OwnerReports>;
  /** Output of smartctl; rejects when it cannot read the disk at all. */
  smart(devpath: string, healthOnly: boolean): Promise<string>;
}

export interface DiskRow {
  readonly [key: string]: unknown;
  readonly devpath: string;
  readonly used?: string;
  readonly gpt: boolean;
  readonly size: number;
  readonly osdid: number;
}

/** IDE, SCSI and SATA, virtio, Xen, NVMe, and the RAID controllers of before they all were SCSI. */
const DISK_NAME = /^(?:(?:h|s|x?v)d[a-z]+|nvme\d+n\d+|cciss!c\d+d\d+)$/;
/** The kernel counts in these whatever the disk does. */
const SECTOR = 512;

export class DiskInventory {
  readonly #host: DiskHost;

  constructor(host: DiskHost) {
    this.#host = host;
  }

  /** Rows by name ("sda", "cciss/c0d0"), sorted. */
  async list(options: {
    readonly smart: boolean;
    readonly partitions: boolean;
  }): Promise<Map<string, DiskRow>> {
    const owners = diskOwners(await this.#host.owners());
    const names = this.#host
      .blockDevices()
      .filter((name) => DISK_NAME.test(name) && !this.#host.isRemote(name));
    const rows = await Promise.all(names.map((name) => this.#disk(name, owners, options)));
    return new Map(rows.flat().toSorted(([a], [b]) => (a < b ? -1 : 1)));
  }

  async smart(devpath: string, healthOnly: boolean): Promise<SmartData> {
    return parseSmart(await this.#host.smart(devpath, healthOnly));
  }

  async #disk(
    name: string,
    owners: DiskOwners,
    options: { readonly smart: boolean; readonly partitions: boolean },
  ): Promise<readonly (readonly [string, DiskRow])[]> {
    const udev = parseUdev(await this.#host.udev(name));
    const size = this.#size(name);
    if (udev === undefined || size === 0 || this.#host.sysNames(`${name}/device`).length === 0) return [];
    const kind = kindOf(name, udev, this.#host.sysLine(`${name}/queue/rotational`));
    const { health, wearout } = options.smart
      ? await this.#health(udev.devpath, kind.type)
      : { health: "UNKNOWN", wearout: "N/A" };
    const partitions = this.#partitions(name, udev, owners);
    const ceph = sumOfCeph([owners.ceph(udev.devpath), ...partitions.map(({ ceph: own }) => own)]);
    const used = this.#usage(name, udev.devpath, owners, partitions, options.partitions);
    const row: DiskRow = {
      devpath: udev.devpath,
      vendor: this.#host.sysLine(`${name}/device/vendor`) || "unknown",
      model: udev.model ?? (this.#host.sysLine(`${name}/device/model`) || "unknown"),
      size,
      serial: udev.serial,
      gpt: udev.gpt,
      rpm: kind.rpm,
      type: kind.type,
      wwn: udev.wwn,
      health,
      wearout,
      ...(owners.mountPoint(udev.devpath) === undefined ? {} : { mounted: true }),
      ...given({ by_id_link: udev.byIdLink, used }),
      ...cephFields(ceph),
    };
    const shown = options.partitions
      ? partitions.map(({ name: part, row: own }) => [part, own] as const)
      : [];
    return [[name.replace("!", "/"), row], ...shown];
  }

  #size(path: string): number {
    return Number(this.#host.sysLine(`${path}/size`) ?? 0) * SECTOR;
  }

  async #health(devpath: string, type: string): Promise<{ health: string; wearout: number | string }> {
    const isSolid = type === "ssd" || type === "nvme";
    try {
      const smart = await this.smart(devpath, !isSolid);
      const left = isSolid ? lifeLeft(smart) : undefined;
      return { health: smart.health ?? "UNKNOWN", wearout: left ?? "N/A" };
    } catch {
      // No smartctl, or a disk that has no such thing: nothing is known of its health.
      return { health: "UNKNOWN", wearout: "N/A" };
    }
  }

  #partitions(name: string, udev: UdevDisk, owners: DiskOwners): readonly Partition[] {
    const folder = udev.devpath.slice(0, udev.devpath.lastIndexOf("/"));
    const names = this.#host.sysNames(name).filter((each) => each.startsWith(name) && each !== name);
    return names.toSorted().map((each) => {
      const part = each.slice(each.indexOf("!") + 1);
      const devpath = `${folder}/${part}`;
      const isHeld = this.#host.sysNames(`${name}/${each}/holders`).length > 0;
      const used = owners.usage(devpath) ?? (isHeld ? "Device Mapper" : undefined);
      const ceph = owners.ceph(devpath) ?? oldCeph(devpath, owners);
      const row: DiskRow = {
        devpath,
        parent: udev.devpath,
        gpt: udev.gpt,
        type: "partition",
        size: this.#size(`${name}/${each}`),
        ...(owners.mountPoint(devpath) === undefined ? {} : { mounted: true }),
        ...given({ used }),
        ...cephFields(ceph),
      };
      return { name: part, row, ceph };
    });
  }

  #usage(
    name: string,
    devpath: string,
    owners: DiskOwners,
    partitions: readonly Partition[],
    listed: boolean,
  ): string | undefined {
    // With its partitions listed beside it, what the whole disk seems to be is only confusing.
    if (listed && partitions.length > 0) return "partitions";
    const own = owners.usage(devpath) ?? partitions.find(({ row }) => row.used !== undefined)?.row.used;
    if (own !== undefined) return own;
    if (partitions.length > 0) return "partitions";
    return this.#host.sysNames(`${name}/holders`).length > 0 ? "Device Mapper" : undefined;
  }
}

interface Partition {
  readonly name: string;
  readonly row: DiskRow;
  readonly ceph: CephVolumes | undefined;
}

function kindOf(
  name: string,
  { rpm, usb }: UdevDisk,
  rotational: string | undefined,
): { readonly type: string; readonly rpm: number } {
  if (rotational === "0") return { type: name.startsWith("nvme") ? "nvme" : "ssd", rpm: 0 };
  if (rotational === "1" && rpm !== -1) return { type: "hdd", rpm };
  if (rotational === "1" && usb) return { type: "usb", rpm: 0 };
  return { type: "unknown", rpm };
}

/** Before LVM an OSD was a mounted partition, and its journal a partition of a type of its own. */
function oldCeph(devpath: string, owners: DiskOwners): CephVolumes | undefined {
  const osdid = /^\/var\/lib\/ceph\/osd\/ceph-(\d+)$/.exec(owners.mountPoint(devpath) ?? "")?.[1];
  const kind = owners.cephPartition(devpath);
  if (osdid === undefined && kind === undefined) return undefined;
  return {
    osdids: osdid === undefined ? [] : [Number(osdid)],
    bluestore: kind === "block",
    encrypted: false,
    journals: kind === "journals" ? 1 : 0,
    db: kind === "db" ? 1 : 0,
    wal: kind === "wal" ? 1 : 0,
  };
}

function sumOfCeph(parts: readonly (CephVolumes | undefined)[]): CephVolumes | undefined {
  const known = parts.filter((part) => part !== undefined);
  if (known.length === 0) return undefined;
  const count = (key: "journals" | "db" | "wal"): number => known.reduce((sum, part) => sum + part[key], 0);
  return {
    osdids: known.flatMap(({ osdids }) => osdids),
    bluestore: known.some(({ bluestore }) => bluestore),
    encrypted: known.some(({ encrypted }) => encrypted),
    journals: count("journals"),
    db: count("db"),
    wal: count("wal"),
  };
}

function cephFields(ceph: CephVolumes | undefined): { readonly osdid: number } & Record<string, unknown> {
  const osdid = ceph?.osdids.at(-1);
  const counts = Object.entries({ journals: ceph?.journals, db: ceph?.db, wal: ceph?.wal });
  return {
    osdid: osdid ?? -1,
    "osdid-list": osdid === undefined ? null : ceph?.osdids,
    ...(osdid === undefined ? {} : { bluestore: ceph?.bluestore, osdencrypted: ceph?.encrypted }),
    ...Object.fromEntries(counts.filter(([, count]) => (count ?? 0) > 0)),
  };
}
