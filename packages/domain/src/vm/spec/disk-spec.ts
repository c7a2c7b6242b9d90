// A disk of a VirtualMachine: PVE says `local:32` for a new one and `local:100/vm-100-disk-0.raw,size=32G` for one that
// is there; typed, both have a storage and a size, and the second has a volume.
import { given } from "@gpve/contracts/given.ts";
import { invalidField } from "@gpve/contracts/invalid-field.ts";
import { diskFields } from "@gpve/contracts/v1/vm-spec/fields.ts";
import type { PropertyRecord } from "../../schema/check.ts";
import { parseVolumeId } from "../../storage/volume-id.ts";
import type { TypedFields } from "./key-mapping.ts";
import { printProperties, readProperties, toFields, toProperties } from "./property-fields.ts";
import { formatQuantity, GIB, parseQuantity } from "./quantity.ts";

const NEW_DISK = /^\d+(?:\.\d+)?$/;
/** Its firmware decides the size; PVE wants a number all the same. */
const SIZED_BY_FIRMWARE = /^(?:efidisk|tpmstate)/;
/** What a size can be told in that PVE reads as gigabytes. */
const DECIMALS = 20;

export function readDisk(key: string, text: string): TypedFields | undefined {
  const properties = readProperties(key, text);
  if (properties === undefined) return undefined;
  const { file, size, ...rest } = properties as PropertyRecord & { file: string; size?: number };
  const fields = toFields(diskFields, rest);
  if (fields === undefined) return undefined;
  const volume = parseVolumeId(file);
  if (volume === undefined || !NEW_DISK.test(volume.volname)) {
    return {
      ...given({ storage: volume?.storage }),
      volume: file,
      ...(size === undefined ? {} : { size: formatQuantity(size) }),
      ...fields,
    };
  }
  const bytes = Number(volume.volname) * GIB;
  if (!Number.isSafeInteger(bytes) || (size !== undefined && size !== bytes)) return undefined;
  return { storage: volume.storage, ...(bytes === 0 ? {} : { size: formatQuantity(bytes) }), ...fields };
}

export function writeDisk(key: string, fields: TypedFields, path: string): string {
  const { storage, size, volume } = fields as { storage?: string; size?: string; volume?: string };
  const properties = toProperties(diskFields, fields);
  const bytes = size === undefined ? undefined : parseQuantity(size, `${path}.size`);
  if (volume !== undefined) {
    const of = parseVolumeId(volume)?.storage;
    if (storage !== undefined && storage !== of)
      throw invalidField(`${path}.storage`, `is '${storage}', but ${path}.volume is '${volume}'`);
    return printProperties(key, {
      file: volume,
      ...properties,
      ...given({ size: bytes }),
    });
  }
  return printProperties(key, { file: newVolume(key, fields, bytes, path), ...properties });
}

function newVolume(key: string, fields: TypedFields, bytes: number | undefined, path: string): string {
  const { storage, importFrom } = fields as { storage?: string; importFrom?: string };
  if (storage === undefined)
    throw invalidField(path, "needs a volume, or a storage and a size for a new one");
  if (bytes === undefined) {
    if (importFrom !== undefined) return `${storage}:0`;
    if (SIZED_BY_FIRMWARE.test(key)) return `${storage}:1`;
    throw invalidField(`${path}.size`, "is needed where the disk has no volume yet");
  }
  if (bytes === 0 || bytes % 1024 !== 0)
    throw invalidField(`${path}.size`, `is ${bytes} bytes: a disk has a whole number of Ki`);
  return `${storage}:${(bytes / GIB).toFixed(DECIMALS).replace(/\.?0+$/, "")}`;
}
