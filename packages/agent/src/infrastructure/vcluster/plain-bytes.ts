import { openPlainFile } from "@gpve/kit/held-file.ts";

/** What is in a file; no link is followed to it. */
export async function* bytesOf(path: string): AsyncGenerator<Uint8Array> {
  const file = await openPlainFile(path);
  try {
    yield* file.createReadStream({ autoClose: false }) as AsyncIterable<Uint8Array>;
  } finally {
    await file.close();
  }
}
