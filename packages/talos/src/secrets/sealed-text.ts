// A text that may be plain, encrypted with age, or a file of SOPS.
import { AppError } from "@gpve/contracts/errors.ts";
import { decryptAge, encryptAge, isAgeText } from "./age-text.ts";
import type { FoundKeys } from "./age-keys.ts";
import { decryptSops, encryptSops, isSopsText } from "./sops-text.ts";

export const isSealed = (text: string): boolean => isAgeText(text) || isSopsText(text);

/** Plain text comes back as it is. `recipients`: for whom it should be encrypted, as far as that is known. */
export async function unsealText(
  text: string,
  keys: FoundKeys,
  what: string,
  recipients: readonly string[] = [],
): Promise<string> {
  if (!isSealed(text)) return text;
  if (keys.identities.length === 0) {
    throw new AppError(
      "access.denied",
      `${what} is encrypted, and there is no age key in ${keys.places.join(" or ")}`,
      {
        data: {
          finding: "age-key-missing",
          next: "Put the key there, or name its file with SOPS_AGE_KEY_FILE.",
        },
      },
    );
  }
  const plain = isAgeText(text)
    ? (await decryptAge(text, keys.identities, what))?.toString("utf8")
    : await decryptSops(text, keys.identities, what);
  if (plain !== undefined) return plain;
  const found = keys.identities.map(({ recipient }) => recipient).join(", ");
  const wanted = recipients.length === 0 ? "" : `; it should be encrypted for ${recipients.join(", ")}`;
  throw new AppError(
    "access.denied",
    `no key here opens ${what}: the keys found are those of ${found}${wanted}`,
    {
      data: {
        finding: "age-key-wrong",
        next: "Use the key of one of its recipients (SOPS_AGE_KEY_FILE), or let one of them add yours.",
      },
    },
  );
}

export async function sealText(
  text: string,
  { backend, recipients }: { readonly backend: string; readonly recipients: readonly string[] },
  now: number,
): Promise<string> {
  if (recipients.length === 0) {
    throw new AppError("config.invalid", "secrets.recipients is empty: there is nobody to encrypt for", {
      data: {
        finding: "recipients-missing",
        next: "Add your age recipient (age1…) to secrets.recipients; `gpvectl talos init` does it.",
      },
    });
  }
  return backend === "sops" ? encryptSops(text, recipients, now) : encryptAge(text, recipients);
}
