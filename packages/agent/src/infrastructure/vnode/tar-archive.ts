// Archives for what is started here: images of containers, settings of machines.
import { buffer } from "node:stream/consumers";
import { pack } from "tar-stream";

export type TarEntry =
  | { readonly path: string; readonly kind: "folder" }
  | { readonly path: string; readonly kind: "file"; readonly content: Buffer; readonly mode?: number }
  | { readonly path: string; readonly kind: "link"; readonly to: string };

/** As tar has it, with nothing in it that changes from one time to the next. */
export async function tarArchive(entries: readonly TarEntry[]): Promise<Buffer> {
  const tar = pack();
  for (const entry of entries) {
    const header = { name: entry.path, mode: 0o755, mtime: new Date(0), uid: 0, gid: 0 };
    if (entry.kind === "file") tar.entry({ ...header, mode: entry.mode ?? 0o644 }, entry.content);
    else if (entry.kind === "link") tar.entry({ ...header, type: "symlink", linkname: entry.to });
    else
      tar.entry({
        ...header,
        name: `${entry.path}/`,
        type: "directory",
        mode: entry.path === "tmp" ? 0o1777 : header.mode,
      });
  }
  tar.finalize();
  return buffer(tar);
}
