// Text encrypted with age, armored so that it can lie in a repository.
import { AppError } from "@gpve/contracts/errors.ts";
import { armor, Decrypter, Encrypter, generateX25519Identity, identityToRecipient } from "age-encryption";

export interface AgeIdentity {
  /** "AGE-SECRET-KEY-1…"; never printed. */
  readonly secret: string;
  /** "age1…" */
  readonly recipient: string;
}

export const isAgeText = (text: string): boolean => /^\s*-----BEGIN AGE ENCRYPTED FILE-----/.test(text);

export async function newAgeIdentity(): Promise<AgeIdentity> {
  const secret = await generateX25519Identity();
  return { secret, recipient: await identityToRecipient(secret) };
}

export async function ageIdentity(secret: string, source: string): Promise<AgeIdentity> {
  try {
    return { secret, recipient: await identityToRecipient(secret) };
  } catch (cause) {
    // Its message could quote the key.
    throw new AppError("config.invalid", `${source} holds a line that is no age key`, {
      cause: new Error(cause instanceof Error ? cause.name : "no age key"),
      data: { finding: "age-key-wrong" },
    });
  }
}

export function isRecipient(text: string): boolean {
  try {
    new Encrypter().addRecipient(text);
    return true;
  } catch {
    return false;
  }
}

export async function encryptAge(
  content: string | Uint8Array,
  recipients: readonly string[],
): Promise<string> {
  const encrypter = new Encrypter();
  for (const recipient of recipients) {
    try {
      encrypter.addRecipient(recipient);
    } catch (cause) {
      throw new AppError("config.invalid", `"${recipient}" is no age recipient; they begin with age1`, {
        cause,
        data: { finding: "recipient-wrong" },
      });
    }
  }
  return `${armor.encode(await encrypter.encrypt(content as Uint8Array)).trimEnd()}\n`;
}

/** undefined: none of the keys opens it. `what` names the text in errors. */
export async function decryptAge(
  text: string,
  identities: readonly AgeIdentity[],
  what: string,
): Promise<Buffer | undefined> {
  let bytes: Uint8Array;
  try {
    bytes = armor.decode(text);
  } catch (cause) {
    throw damaged(what, cause);
  }
  const decrypter = new Decrypter();
  for (const { secret } of identities) decrypter.addIdentity(secret);
  try {
    return Buffer.from(await decrypter.decrypt(bytes));
  } catch (cause) {
    // The library tells the two apart by its text alone.
    if (/no identity matched/i.test(String((cause as Error).message))) return undefined;
    throw damaged(what, cause);
  }
}

function damaged(what: string, cause: unknown): AppError {
  return new AppError("config.invalid", `${what} is damaged: it is no whole age file any more`, {
    cause,
    data: { finding: "secrets-damaged", next: "Take it from a backup." },
  });
}
