// SHA-256 of a file, in hex, however large it is.
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";

export async function fileDigest(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const piece of createReadStream(path, { highWaterMark: 1024 * 1024 }))
    hash.update(piece as Buffer);
  return hash.digest("hex");
}
