// Disks that a spec wants larger than they are: they grow. PVE has a method of its own for that, and ignores a size
// that is only written into the configuration.
import { invalidField } from "@gpve/contracts/invalid-field.ts";
import { GIB } from "./quantity.ts";
import { formatSize } from "../../schema/size.ts";
import { parseVolumeId } from "../../storage/volume-id.ts";
import { isCdrom, parseDrive, printDrive } from "../config/drive.ts";
import { isDriveKey } from "../config/keys.ts";
import type { VmValues } from "../config/vm-config.ts";

export interface Growth {
  readonly disk: string;
  /** As PVE's resize takes it: 64G. */
  readonly size: string;
}

export interface SplitGrowth {
  /** What is wanted with every disk at the size it has. */
  readonly values: VmValues;
  readonly growths: readonly Growth[];
}

/** `paths` are the keys that typed fields ask for; a size in PVE's own text means what it means there. */
export function splitGrowth(
  wanted: VmValues,
  current: VmValues,
  paths: ReadonlyMap<string, string>,
  options: { readonly mayStayLarger?: boolean } = {},
): SplitGrowth {
  const values: Record<string, string> = { ...wanted };
  const growths: Growth[] = [];
  for (const [key, text] of Object.entries(wanted)) {
    const path = paths.get(key);
    const [ask, has] = [text, current[key]].map((each) =>
      each === undefined || !isDriveKey(key) ? undefined : parseDrive(key, each),
    );
    if (path === undefined || ask === undefined || has === undefined) continue;
    if (has.size === undefined || isCdrom(has) || /^(?:efidisk|tpmstate)/.test(key)) continue;
    const [from, to] = [parseVolumeId(ask.file), parseVolumeId(has.file)];
    const isNew = from !== undefined && from.storage === to?.storage && /^\d+(?:\.\d+)?$/.test(from.volname);
    const size = isNew ? Number(from.volname) * GIB : ask.file === has.file ? ask.size : undefined;
    if (size === undefined || size === has.size) continue;
    if (size < has.size && options.mayStayLarger !== true)
      throw invalidField(
        `${path}.size`,
        `is ${formatSize(size)}iB, but the disk has ${formatSize(has.size)}iB: disks grow, and do not shrink`,
      );
    const { format: _format, "import-from": _source, ...rest } = ask;
    values[key] = printDrive(key, { ...rest, file: has.file, size: has.size });
    if (size > has.size) growths.push({ disk: key, size: formatSize(size) });
  }
  return { values, growths };
}

/** The configuration once they have grown. */
export function withGrowth(values: VmValues, growths: readonly Growth[]): VmValues {
  const result: Record<string, string> = { ...values };
  for (const { disk, size } of growths) result[disk] = (values[disk] ?? "").replace(/(?<=,size=)[^,]+/, size);
  return result;
}
