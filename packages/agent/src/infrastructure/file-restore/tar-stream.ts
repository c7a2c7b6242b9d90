import { once } from "node:events";
import { pack, type Header, type Pack } from "tar-stream";
import type { FileKind, PackedEntry } from "@gpve/domain/backup/file-tree.ts";
import { ignore } from "@gpve/kit/background.ts";

const TYPES = { f: "file", l: "symlink", d: "directory" } as const satisfies Partial<
  Record<FileKind, Header["type"]>
>;
/** The library takes a mode of 0 for one that was not given; with the type's bits it is none, and they are not written. */
const TYPE_BITS = { f: 0o100000, l: 0o120000, d: 0o040000 } as const;

/** With pax headers for what does not fit. Devices and sockets are left out. */
export async function* tarOf(files: AsyncIterable<PackedEntry>): AsyncGenerator<Uint8Array> {
  const tar = pack();
  const filled = fill(tar, files).catch((err: unknown) => tar.destroy(err as Error));
  try {
    yield* tar as AsyncIterable<Uint8Array>;
  } finally {
    tar.destroy();
    await filled;
  }
}

async function fill(tar: Pack, files: AsyncIterable<PackedEntry>): Promise<void> {
  for await (const { path, file, target = "", body } of files) {
    const { kind, mode, uid, gid, mtime } = file;
    if (kind !== "f" && kind !== "l" && kind !== "d") continue;
    const size = kind === "f" ? file.size : 0;
    const { promise: packed, resolve, reject } = Promise.withResolvers<void>();
    packed.catch((err: unknown) => ignore(err, "whoever waits for it is told"));
    const entry = tar.entry(
      {
        name: kind === "d" ? `${path}/` : path,
        type: TYPES[kind],
        mode: TYPE_BITS[kind] | mode,
        mtime: new Date(mtime * 1000),
        size,
        uid,
        gid,
        ...(kind === "l" ? { linkname: target } : {}),
      },
      (err) => (err === null || err === undefined ? resolve() : reject(err)),
    );
    entry.on("error", (err) => ignore(err, "the callback has it too"));
    if (size > 0)
      for await (const bytes of body ?? []) {
        if (!entry.write(bytes)) await Promise.race([once(entry, "drain"), packed]);
      }
    entry.end(() => {});
    await packed;
  }
  tar.finalize();
}
