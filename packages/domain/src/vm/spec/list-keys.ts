// Keys that are entries of disks, networks and cloudInit.addresses: an entry's name is PVE's key.
import { addressFields, networkFields } from "@gpve/contracts/v1/vm-spec/fields.ts";
import type { PropertyField } from "@gpve/contracts/v1/vm-spec/fields.ts";
import { isDriveKey, vmKeySchema } from "../config/keys.ts";
import { readDisk, writeDisk } from "./disk-spec.ts";
import type { KeyMapping, ListKeys } from "./key-mapping.ts";
import { printProperties, readProperties, toFields, toProperties } from "./property-fields.ts";

export const listKeys: readonly ListKeys[] = [
  {
    path: ["disks"],
    kinds: "scsi0, virtio0, sata0, ide0, efidisk0, tpmstate0, …",
    isKey: isDriveKey,
    read: readDisk,
    write: writeDisk,
  },
  {
    path: ["networks"],
    kinds: "net0, net1, …",
    isKey: (key) => /^net\d+$/.test(key) && vmKeySchema(key) !== undefined,
    ...byTable(networkFields, { model: "virtio" }),
  },
  {
    path: ["cloudInit", "addresses"],
    kinds: "ipconfig0, ipconfig1, …",
    isKey: (key) => /^ipconfig\d+$/.test(key) && vmKeySchema(key) !== undefined,
    ...byTable(addressFields),
  },
];

function byTable(
  table: readonly PropertyField[],
  defaults: Readonly<Record<string, unknown>> = {},
): KeyMapping {
  return {
    read: (key, text) => {
      const properties = readProperties(key, text);
      return properties === undefined ? undefined : toFields(table, properties);
    },
    write: (key, fields) => printProperties(key, toProperties(table, { ...defaults, ...fields })),
  };
}
