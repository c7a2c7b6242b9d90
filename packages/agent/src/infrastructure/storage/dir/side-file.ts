// Small files beside an archive: notes, the name of what it builds on.
import { openPlainFile } from "@gpve/kit/held-file.ts";

/** Far more than anybody writes; the beginning of what is longer. */
const MOST_BYTES = 1024 * 1024;

/** "" = there is none, or a link that would show another file. */
export async function readSideFile(path: string): Promise<string> {
  const file = await openPlainFile(path).catch(() => undefined);
  if (file === undefined) return "";
  try {
    const bytes = Buffer.alloc(Math.min(MOST_BYTES, (await file.stat()).size));
    const { bytesRead } = await file.read(bytes, 0, bytes.length, 0);
    return bytes.toString("utf8", 0, bytesRead);
  } finally {
    await file.close();
  }
}
