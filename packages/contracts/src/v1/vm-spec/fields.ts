// The typed fields of a VM's disks, cards and processor, and the options of PVE's property strings they stand for.
// Schema, OpenAPI and the mapping in the domain read these tables; a test compares them with PVE's own.

export type FieldType = "boolean" | "integer" | "number" | "string";

export interface PropertyField {
  /** In a VirtualMachine: detectZeroes. */
  readonly field: string;
  /** In PVE's property string: detect_zeroes. */
  readonly pve: string;
  readonly type: FieldType;
}

/** `file` and `size` are not here: volume, storage and size say together what both say. */
export const diskFields: readonly PropertyField[] = fields({
  boolean: [
    "backup",
    "detect_zeroes",
    "iothread",
    "pre-enrolled-keys",
    "replicate",
    "ro",
    "scsiblock",
    "shared",
    "snapshot",
    "ssd",
  ],
  integer: [
    "bps",
    "bps_rd",
    "bps_wr",
    "bps_max_length",
    "bps_rd_max_length",
    "bps_wr_max_length",
    "iops",
    "iops_rd",
    "iops_wr",
    "iops_max",
    "iops_rd_max",
    "iops_wr_max",
    "iops_max_length",
    "iops_rd_max_length",
    "iops_wr_max_length",
    "queues",
  ],
  number: ["mbps", "mbps_rd", "mbps_wr", "mbps_max", "mbps_rd_max", "mbps_wr_max"],
  string: [
    "aio",
    "cache",
    "discard",
    "efitype",
    "format",
    "import-from",
    "media",
    "model",
    "ms-cert",
    "product",
    "rerror",
    "serial",
    "vendor",
    "version",
    "werror",
    "wwn",
  ],
});

export const networkFields: readonly PropertyField[] = fields(
  {
    boolean: ["firewall", "host-tunnel", "link_down"],
    integer: ["mtu", "queues", "tag"],
    number: ["rate"],
    string: ["bridge", "macaddr", "model", "trunks"],
  },
  { tag: "vlan", macaddr: "macAddress" },
);

/** Of the key `cpu`; cores, sockets, limit and numa are keys of their own. */
export const cpuTypeFields: readonly PropertyField[] = fields(
  {
    boolean: ["hidden"],
    integer: ["guest-phys-bits", "level"],
    number: [],
    string: ["cputype", "flags", "hv-vendor-id", "phys-bits", "reported-model"],
  },
  { cputype: "type" },
);

export const addressFields: readonly PropertyField[] = fields(
  { boolean: [], integer: [], number: [], string: ["ip", "gw", "ip6", "gw6"] },
  { gw: "gateway", gw6: "gateway6" },
);

export const customFields: readonly PropertyField[] = fields({
  boolean: [],
  integer: [],
  number: [],
  string: ["meta", "network", "user", "vendor"],
});

function fields(
  byType: Readonly<Record<FieldType, readonly string[]>>,
  renamed: Readonly<Record<string, string>> = {},
): readonly PropertyField[] {
  return (Object.keys(byType) as FieldType[]).flatMap((type) =>
    byType[type].map((pve) => ({ field: renamed[pve] ?? camelCase(pve), pve, type })),
  );
}

function camelCase(text: string): string {
  return text.replace(/[-_]([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}
