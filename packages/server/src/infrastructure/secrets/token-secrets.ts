import { hash, randomUUID } from "node:crypto";
import type { TokenSecrets } from "@gpve/domain/access/ports.ts";
import { sameText } from "@gpve/kit/same-bytes.ts";

/** A token's secret has 122 random bits, so one fast hash is enough to keep it from being read back. */
export const tokenSecrets: TokenSecrets = {
  generate: () => randomUUID(),
  digest: sha256,
  matches: (secret, digest) => sameText(digest, sha256(secret)),
};

function sha256(text: string): string {
  return hash("sha256", text, "hex");
}
