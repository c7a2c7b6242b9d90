import { hash, randomUUID, timingSafeEqual } from "node:crypto";
import type { TokenSecrets } from "@gpve/domain/access/ports.ts";

/** A token's secret has 122 random bits, so one fast hash is enough to keep it from being read back. */
export const tokenSecrets: TokenSecrets = {
  generate: () => randomUUID(),
  digest: (secret) => sha256(secret).toString("hex"),
  matches: (secret, digest) => {
    const stored = Buffer.from(digest, "hex");
    const given = sha256(secret);
    return stored.length === given.length && timingSafeEqual(stored, given);
  },
};

function sha256(text: string): Buffer {
  return hash("sha256", text, "buffer");
}
