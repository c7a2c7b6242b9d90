// AES-256-GCM with a master key that lies in a file beside the data, never in the store.
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Sealer } from "@gpve/domain/access/ports.ts";

export const MASTER_KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const VERSION = "v1.";

export function createSealer(masterKey: Uint8Array): Sealer {
  if (masterKey.length !== MASTER_KEY_BYTES) {
    throw new AppError("config.invalid", `the master key must have ${MASTER_KEY_BYTES} bytes`);
  }
  return {
    seal: (plain, context) => {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv("aes-256-gcm", masterKey, nonce).setAAD(Buffer.from(context));
      const body = Buffer.concat([cipher.update(plain, "utf8"), cipher.final()]);
      return VERSION + Buffer.concat([nonce, body, cipher.getAuthTag()]).toString("base64");
    },
    open: (sealed, context) => {
      try {
        if (!sealed.startsWith(VERSION)) throw new Error("unknown format");
        const bytes = Buffer.from(sealed.slice(VERSION.length), "base64");
        if (bytes.length < NONCE_BYTES + TAG_BYTES) throw new Error("too short");
        const decipher = createDecipheriv("aes-256-gcm", masterKey, bytes.subarray(0, NONCE_BYTES))
          .setAAD(Buffer.from(context))
          .setAuthTag(bytes.subarray(-TAG_BYTES));
        const body = decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES));
        return Buffer.concat([body, decipher.final()]).toString("utf8");
      } catch (cause) {
        throw new AppError(
          "internal.error",
          `cannot open the secret '${context}': it was changed, or sealed with another master key`,
          { cause },
        );
      }
    },
  };
}
