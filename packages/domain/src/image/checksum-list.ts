// Publishers' checksum files come in three forms: `<hash>  <file>` (a `*` marks binary), `SHA256 (<file>) = <hash>`,
// and the bare hash of the one file they lie beside.

export interface ImageChecksum {
  readonly algorithm: "sha256" | "sha512";
  readonly value: string;
}

/** undefined = the list does not vouch for this file, or says two different things about it. */
export function findChecksum(list: string, file: string): ImageChecksum | undefined {
  const lines = list.split(/\r?\n/).map((line) => line.trim());
  const named = lines.flatMap((line) => {
    const [, gnuHash, gnuFile] = /^([0-9a-fA-F]+) [ *]?(?:\.\/)?(\S+)$/.exec(line) ?? [];
    const [, bsdFile, bsdHash] = /^SHA(?:256|512) \(([^)]+)\) = ([0-9a-fA-F]+)$/.exec(line) ?? [];
    if (gnuFile === file) return [gnuHash ?? ""];
    return bsdFile === file ? [bsdHash ?? ""] : [];
  });
  const words = lines.filter((line) => line !== "");
  const bare = words.length === 1 && /^[0-9a-fA-F]+$/.test(words[0] ?? "") ? words : [];
  const values = new Set((named.length > 0 ? named : bare).map((value) => value.toLowerCase()));
  const checksums = [...values].flatMap((value): ImageChecksum[] => {
    if (value.length === 64) return [{ algorithm: "sha256", value }];
    return value.length === 128 ? [{ algorithm: "sha512", value }] : [];
  });
  const [first, second] = checksums.toSorted((a, b) => b.value.length - a.value.length);
  return second !== undefined && second.algorithm === first?.algorithm ? undefined : first;
}
