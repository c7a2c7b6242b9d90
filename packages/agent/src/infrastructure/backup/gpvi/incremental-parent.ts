import { createReadStream } from "node:fs";
import { createZstdDecompress } from "node:zlib";
import { ignore } from "@gpve/kit/background.ts";
import { GpviReader } from "./gpvi-reader.ts";

/** The file name an incremental archive says it builds on; undefined when it says nothing that can be read. */
export async function incrementalParent(path: string): Promise<string | undefined> {
  const file = createReadStream(path);
  const stream = path.endsWith(".zst") ? file.pipe(createZstdDecompress()) : file;
  if (stream !== file) file.on("error", (err) => stream.destroy(err));
  try {
    const reader = await GpviReader.open(stream as AsyncIterable<Uint8Array>);
    await reader.close();
    return reader.header.parent.name;
  } catch (err) {
    ignore(err, "a damaged archive is still listed");
    return undefined;
  } finally {
    stream.destroy();
    file.destroy();
  }
}
