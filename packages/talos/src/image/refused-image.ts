// A platform that was told an image's checksum keeps none that differs. It says so in words, as Proxmox VE has them, of the
// file as it was downloaded.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { ImageSource } from "../driver/driver.ts";

const MISMATCH = /checksum mismatch: got '([0-9a-f]{64})'/i;

/** Why an image was not fetched; what is no matter of its checksum is left as it is. */
export function refusedImage(err: unknown, { name, url, sha256 }: ImageSource): unknown {
  const found = MISMATCH.exec(messageOf(err))?.[1];
  if (sha256 === undefined || found === undefined) return err;
  return new AppError(
    "object.conflict",
    `${url} gives ${name} with the SHA-256 ${found.toLowerCase()}, and ${sha256} is pinned`,
    {
      cause: err,
      data: { finding: "image-rebuilt", next: "It was not kept, and nothing was made from it." },
    },
  );
}
