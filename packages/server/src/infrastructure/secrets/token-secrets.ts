import { hash, randomUUID, timingSafeEqual } from "node:crypto";
import type { TokenSecrets } from "@gpve/domain/access/ports.ts";

/** A token's secret has 122 random bits, so one fast hash is enough to keep it from being read back. */
export const tokenSecrets: TokenSecrets = {
  generate: () => randomUUID(),
  digest: sha256,
  matches: (secret, digest) => {
    const stored = Buffer.from(digest, "latin1");
    const given = Buffer.from(sha256(secret), "latin1");
    return stored.length === given.length && timingSafeEqual(stored, given);
  },
};

function sha256(text: string): string {
  return hash("sha256", text, "hex");
}
