// Who uses which block device: partition types and file systems, LVM, ZFS, Ceph, mounts.

/** Output of the tools that know, as they print it; "" for a tool that is not there or failed. */
export interface OwnerReports {
  /** `lsblk --json -o path,parttype,fstype` */
  readonly lsblk: string;
  /** `pvs --noheadings --readonly -o pv_name` */
  readonly pvs: string;
  /** `lvs -S lv_name=~^osd- -o devices,lv_name,lv_tags --noheadings --separator ;` */
  readonly lvs: string;
  /** `zpool list -HPLv` */
  readonly zpool: string;
  /** /proc/mounts */
  readonly mounts: string;
}

export interface CephVolumes {
  readonly osdids: readonly number[];
  readonly bluestore: boolean;
  readonly encrypted: boolean;
  readonly journals: number;
  readonly db: number;
  readonly wal: number;
}

export interface DiskOwners {
  /** What a device itself is used for; undefined: nothing that shows. */
  usage(devpath: string): string | undefined;
  mountPoint(devpath: string): string | undefined;
  ceph(devpath: string): CephVolumes | undefined;
  /** What a partition is for in Ceph of before LVM. */
  cephPartition(devpath: string): "journals" | "db" | "wal" | "block" | undefined;
}

interface BlockDevice {
  readonly path: string;
  readonly parttype?: string | null;
  readonly fstype?: string | null;
}

const LVM_TYPES = new Set(["e6d6d379-f507-44c2-a23c-238f2a3df928"]);
const ZFS_TYPES = new Set(["6a898cc3-1dd2-11b2-99a6-080020736631", "516e7cba-6ecf-11d6-8ff8-00022d09712b"]);
const NAMED_TYPES: Readonly<Record<string, string>> = {
  "21686148-6449-6e6f-744e-656564454649": "BIOS boot",
  "c12a7328-f81f-11d2-ba4b-00a0c93ec93b": "EFI",
  "6a945a3b-1dd2-11b2-99a6-080020736631": "ZFS reserved",
};
const CEPH_TYPES: Readonly<Record<string, "journals" | "db" | "wal" | "block">> = {
  "45b0969e-9b03-4f30-b4c6-b4b80ceff106": "journals",
  "30cd0809-c2b2-499c-8879-2d6b78529876": "db",
  "5ce17fce-4087-4169-b7ff-056cc58473f9": "wal",
  "cafecafe-9b03-4f30-b4c6-b4b80ceff106": "block",
};

export function diskOwners(reports: OwnerReports): DiskOwners {
  const devices = new Map(parseLsblk(reports.lsblk).map((device) => [device.path, device]));
  const lvm = new Set(lines(reports.pvs).filter((line) => line.startsWith("/dev/")));
  const zfs = new Set([...reports.zpool.matchAll(/^\t([^\t\n]+)\t/gm)].map(([, device]) => device));
  const ceph = parseCephVolumes(reports.lvs);
  const mounted = new Map(
    lines(reports.mounts)
      .map((line) => line.split(" "))
      .flatMap(([what = "", where = ""]) => (what.startsWith("/dev/") ? [[what, where] as const] : [])),
  );
  return {
    usage: (devpath) => {
      const { parttype, fstype } = devices.get(devpath) ?? {};
      const partition = parttype ?? "";
      if (lvm.has(devpath) || LVM_TYPES.has(partition)) return "LVM";
      if (zfs.has(devpath) || ZFS_TYPES.has(partition)) return "ZFS";
      return NAMED_TYPES[partition] ?? fstype ?? (mounted.has(devpath) ? "mounted" : undefined);
    },
    mountPoint: (devpath) => mounted.get(devpath),
    ceph: (devpath) => ceph.get(devpath),
    cephPartition: (devpath) => CEPH_TYPES[devices.get(devpath)?.parttype ?? ""],
  };
}

function lines(text: string): string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

function parseLsblk(text: string): readonly BlockDevice[] {
  if (text.trim() === "") return [];
  const flat = (
    devices: readonly (BlockDevice & { readonly children?: readonly BlockDevice[] })[],
  ): BlockDevice[] => devices.flatMap((device) => [device, ...flat(device.children ?? [])]);
  return flat((JSON.parse(text) as { blockdevices?: readonly BlockDevice[] }).blockdevices ?? []);
}

function parseCephVolumes(text: string): Map<string, CephVolumes> {
  const found = new Map<string, CephVolumes>();
  for (const line of lines(text)) {
    const [devices = "", name = "", tags = ""] = line.split(";");
    const device = /^(\/dev\/[a-z]+[^(]*)/.exec(devices)?.[1];
    const kind = /^osd-([^-]+)-/.exec(name)?.[1];
    if (device === undefined || kind === undefined) continue;
    const before = found.get(device) ?? NO_CEPH;
    const osdid = /ceph\.osd_id=(\d+)/.exec(tags)?.[1];
    if ((kind === "block" || kind === "data") && osdid !== undefined) {
      found.set(device, {
        ...before,
        osdids: [...before.osdids, Number(osdid)],
        bluestore: kind === "block",
        encrypted: before.encrypted || tags.includes("ceph.encrypted=1"),
      });
    } else {
      const one = (counted: string): number => (counted === kind ? 1 : 0);
      found.set(device, {
        ...before,
        journals: before.journals + one("journal"),
        db: before.db + one("db"),
        wal: before.wal + one("wal"),
      });
    }
  }
  return found;
}

const NO_CEPH: CephVolumes = { osdids: [], bluestore: false, encrypted: false, journals: 0, db: 0, wal: 0 };
