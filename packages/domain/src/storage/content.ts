// What a storage may hold, and how the names of such files look.

export const contentTypes = [
  "images",
  "rootdir",
  "vztmpl",
  "iso",
  "backup",
  "snippets",
  "import",
  "volumes",
  "none",
] as const;
export type ContentType = (typeof contentTypes)[number];
/** Content that lies below one directory per type. */
export type VolumeType = Exclude<ContentType, "none">;
/** Persistent volumes of virtual clusters are folders, which clusters name and not their storage: PVE has no such content. */
export type NamedVolumeType = Exclude<VolumeType, "volumes">;

export type ImageFormat = "raw" | "qcow2" | "vmdk" | "subvol";
export const imageFormats: readonly ImageFormat[] = ["raw", "qcow2", "vmdk", "subvol"];

/** Characters that need no thought in a file name. */
export const SAFE_NAME = /^[a-zA-Z0-9\-.+=_]+$/;
export const ISO_NAME = /^[^/]+\.(?:iso|img)$/i;
export const TEMPLATE_NAME = /^[^/]+\.tar(?:\.(gz|xz|zst|bz2))?$/i;
export const BACKUP_NAME = /^[^/]+\.(tgz|(?:tar|vma)(?:\.(?:gz|lzo|zst|bz2))?|gpvi(?:\.zst)?)$/;
/** Unlike ISO images and templates, these are told apart by their extension alone: it is written small. */
export const IMPORT_NAME = /^[a-zA-Z0-9\-.+=_ ]+\.(ova|ovf|qcow2|raw|vmdk)$/;
export const UPLOAD_IMPORT_NAME = /^[a-zA-Z0-9\-.+=_]+\.(ova|qcow2|raw|vmdk)$/;
/** A disk inside an OVA, named as if the OVA were a directory. */
export const OVA_MEMBER = /^[a-zA-Z0-9\-.+=_ ]+\.ova\/[a-zA-Z0-9\-.+=_ ]+\.(qcow2|raw|vmdk)$/;

/** A name a client gave, without its directories and without anything a file name should not have. */
export function normalizeFileName(given: string): string {
  return given
    .replace(/^[\s\S]*[/\\]/, "")
    .replace(/\n$/, "")
    .replaceAll(/[^a-zA-Z0-9_.-]/g, "_");
}

export function isContentType(text: string): text is ContentType {
  return (contentTypes as readonly string[]).includes(text);
}
