// Volume names of storages that are directories, and where the files lie.
//
//   100/vm-100-disk-0.qcow2                        images/100/vm-100-disk-0.qcow2
//   9000/base-9000-disk-0.qcow2/100/vm-100-…       images/100/vm-100-…   (a linked clone)
//   iso/x.iso  vztmpl/x.tar.zst  backup/vzdump-…  snippets/x  import/x.qcow2  import/x.ova/disk.vmdk
import { BACKUP_TYPES } from "./backup-name.ts";
import {
  BACKUP_NAME,
  IMPORT_NAME,
  ISO_NAME,
  OVA_MEMBER,
  TEMPLATE_NAME,
  type ImageFormat,
  type VolumeType,
} from "./content.ts";
import { storageRefused } from "./failures.ts";
import { hasControl, type VolumeName } from "./volume-name.ts";

const OWNED_BACKUP = new RegExp(`^vzdump-(?:${BACKUP_TYPES})-(\\d+)-.+`);
const IMAGE_NAME = /^((?:(vm-|base-|subvol-)(?:\d+)-[^/\s]+|[^/\s]+)\.(raw|qcow2|vmdk|subvol))$/;

export interface ImageName {
  readonly name: string;
  readonly format: ImageFormat;
  readonly isBase: boolean;
}

export function parseImageName(name: string): ImageName | undefined {
  const match = IMAGE_NAME.exec(name);
  // A name like ".." would leave the directory; one like "-o" would be an option to a tool.
  if (match === null || name.startsWith(".") || name.startsWith("-") || hasControl(name)) return undefined;
  return { name, format: match[3] as ImageFormat, isBase: name.startsWith("base-") };
}

const LINKED = /^([1-9]\d*)\/(\S+)\/([1-9]\d*)\/(\S+)$/;
const SINGLE = /^([1-9]\d*)\/(\S+)$/;

export function parseDirVolume(volname: string): VolumeName | undefined {
  const linked = LINKED.exec(volname);
  if (linked !== null) {
    const [, baseVmid = "", baseName = "", vmid = "", name = ""] = linked;
    const base = parseImageName(baseName);
    const image = parseImageName(name);
    if (base === undefined || image === undefined) return undefined;
    return {
      type: "images",
      ...image,
      vmid: Number(vmid),
      base: { vmid: Number(baseVmid), name: baseName },
    };
  }
  const single = SINGLE.exec(volname);
  if (single !== null) {
    const image = parseImageName(single[2] ?? "");
    return image === undefined ? undefined : { type: "images", ...image, vmid: Number(single[1]) };
  }
  const slash = volname.indexOf("/");
  const name = volname.slice(slash + 1);
  if (slash < 0 || name.startsWith(".") || hasControl(name)) return undefined;
  switch (volname.slice(0, slash)) {
    case "iso":
      return ISO_NAME.test(name) ? file("iso", name) : undefined;
    case "vztmpl":
      return TEMPLATE_NAME.test(name) ? file("vztmpl", name) : undefined;
    case "snippets":
      return name === "" || name.includes("/") ? undefined : file("snippets", name);
    case "rootdir":
      return /^[1-9]\d*$/.test(name)
        ? { type: "rootdir", name, vmid: Number(name), isBase: false, format: "subvol" }
        : undefined;
    case "backup":
      return parseBackup(name);
    case "import":
      return parseImport(name);
    default:
      return undefined;
  }
}

export function requireDirVolume(volname: string): VolumeName {
  const parsed = parseDirVolume(volname);
  if (parsed !== undefined) return parsed;
  const image = wrongImageName(volname);
  throw storageRefused(
    image === undefined
      ? `unable to parse directory volume name '${volname}'`
      : `unable to parse volume filename '${image}'`,
  );
}

/** The file name that is at fault in what else is the name of a guest's image. */
function wrongImageName(volname: string): string | undefined {
  const [, , baseName = "", , name = ""] = LINKED.exec(volname) ?? [];
  if (name !== "") return parseImageName(baseName) === undefined ? baseName : name;
  return SINGLE.exec(volname)?.[2];
}

export function formatDirVolume(volume: VolumeName): string {
  if (volume.type === "images") {
    const base = volume.base === undefined ? "" : `${volume.base.vmid}/${volume.base.name}/`;
    return `${base}${volume.vmid}/${volume.name}`;
  }
  return `${volume.type}/${volume.name}`;
}

/** Directory of each content type below the storage's path, unless `content-dirs` says otherwise. */
export const contentDirectories: Readonly<Record<VolumeType, string>> = {
  images: "images",
  rootdir: "private",
  vztmpl: "template/cache",
  iso: "template/iso",
  backup: "dump",
  snippets: "snippets",
  import: "import",
  volumes: "volumes",
};

/** Path of a volume's file below the storage's path. */
export function relativePathOf(
  volume: VolumeName,
  directories: Readonly<Partial<Record<VolumeType, string>>> = {},
): string {
  const directory = directories[volume.type] ?? contentDirectories[volume.type];
  if (volume.type === "images") return `${directory}/${volume.vmid}/${volume.name}`;
  // The disk of an OVA lies in the OVA's file.
  const name = volume.format.startsWith("ova+")
    ? volume.name.slice(0, volume.name.indexOf("/"))
    : volume.name;
  return `${directory}/${name}`;
}

function parseBackup(name: string): VolumeName | undefined {
  if (!BACKUP_NAME.test(name)) return undefined;
  const vmid = OWNED_BACKUP.exec(name)?.[1];
  return vmid === undefined ? file("backup", name) : { ...file("backup", name), vmid: Number(vmid) };
}

function parseImport(name: string): VolumeName | undefined {
  const member = OVA_MEMBER.exec(name)?.[1];
  if (member !== undefined) {
    return { type: "import", name, isBase: false, format: `ova+${member}` };
  }
  const extension = IMPORT_NAME.exec(name)?.[1];
  return extension === undefined ? undefined : { type: "import", name, isBase: false, format: extension };
}

function file(type: VolumeType, name: string): VolumeName {
  return { type, name, isBase: false, format: "raw" };
}
