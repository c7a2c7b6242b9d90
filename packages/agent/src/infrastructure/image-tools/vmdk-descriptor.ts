// What a VMDK says of other files. A descriptor is text that may name any path of the host as an extent or parent,
// so only images that carry everything in one file are taken.

export type VmdkVerdict =
  | { readonly ok: true; readonly capacity: number }
  | { readonly ok: false; readonly why: string };

const SPARSE_MAGIC = 0x564d444b; // "KDMV", little endian
const SECTOR = 512;
/** Bytes of the file's beginning that a verdict needs at most. */
export const VMDK_HEAD_BYTES = 1024 * 1024;

/** Whether QEMU would take it for a VMDK at all, good or bad. */
export function looksLikeVmdk(head: Uint8Array): boolean {
  const start = new TextDecoder("latin1").decode(head.subarray(0, 4096));
  return /^(?:KDMV|COWD)/.test(start) || /^\s*# Disk DescriptorFile/i.test(start);
}

export function judgeVmdk(head: Uint8Array): VmdkVerdict {
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  if (head.length < SECTOR || view.getUint32(0, true) !== SPARSE_MAGIC) {
    return {
      ok: false,
      why: "it is no self-contained VMDK: descriptor files that name other files are refused",
    };
  }
  const capacity = Number(view.getBigUint64(12, true)) * SECTOR;
  const offset = Number(view.getBigUint64(28, true)) * SECTOR;
  const length = Number(view.getBigUint64(36, true)) * SECTOR;
  if (offset === 0 || length === 0) return { ok: false, why: "it carries no descriptor" };
  if (offset + length > head.length) return { ok: false, why: "its descriptor lies outside the header" };
  const bytes = head.subarray(offset, offset + length);
  const end = bytes.indexOf(0);
  const text = new TextDecoder("latin1").decode(end < 0 ? bytes : bytes.subarray(0, end));
  const why = judgeDescriptor(text);
  return why === undefined ? { ok: true, capacity } : { ok: false, why };
}

/** undefined = nothing in it reaches outside the file. */
export function judgeDescriptor(text: string): string | undefined {
  // Line by line: across lines a pattern would try every line again from each line before it.
  const lines = text.split(/\r?\n|\r/);
  const kind = lines
    .map((line) => /^\s*createType\s*=\s*"([^"]*)"/i.exec(line)?.[1])
    .find((each) => each !== undefined);
  if (kind !== "monolithicSparse" && kind !== "streamOptimized") {
    return `its kind ${JSON.stringify(kind ?? "")} is not one of monolithicSparse, streamOptimized`;
  }
  if (lines.some((line) => /^\s*parentFileNameHint\s*=/i.test(line))) return "it builds on a parent image";
  const extents = lines.filter((line) => /^\s*(?:RW|RDONLY|NOACCESS)\s/i.test(line));
  if (extents.length !== 1) return `it has ${extents.length} extents instead of one`;
  const [, type = "", file = ""] = /^\s*\w+\s+\d+\s+(\w+)\s+"([^"]*)"/.exec(extents[0] ?? "") ?? [];
  if (type.toUpperCase() !== "SPARSE") return `its extent is of type ${JSON.stringify(type)}`;
  if (file.includes("/") || file.includes("\\")) return "its extent lies in another directory";
  return undefined;
}
