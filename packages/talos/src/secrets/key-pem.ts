// Private keys with the PEM labels Go's libraries write. Talos puts a label of its own around Ed25519 keys, which
// OpenSSL does not know.
import { KeyObject, createPrivateKey, type webcrypto } from "node:crypto";
import { AppError } from "@gpve/contracts/errors.ts";

const TALOS_LABEL = "ED25519 PRIVATE KEY";
const relabel = (pem: string, from: string, to: string): string =>
  pem.replaceAll(`BEGIN ${from}-----`, `BEGIN ${to}-----`).replaceAll(`END ${from}-----`, `END ${to}-----`);

export function writeKeyPem(key: webcrypto.CryptoKey): string {
  const object = KeyObject.from(key);
  const type = object.asymmetricKeyType;
  if (type === "ec") return object.export({ type: "sec1", format: "pem" }).toString();
  if (type === "rsa") return object.export({ type: "pkcs1", format: "pem" }).toString();
  return relabel(object.export({ type: "pkcs8", format: "pem" }).toString(), "PRIVATE KEY", TALOS_LABEL);
}

/** `what` names the key in errors; the key itself never appears in them. */
export function readKeyPem(pem: string, what: string): KeyObject {
  try {
    return createPrivateKey(relabel(pem, TALOS_LABEL, "PRIVATE KEY"));
  } catch (cause) {
    throw new AppError("config.invalid", `${what} is no private key that can be read`, { cause });
  }
}
