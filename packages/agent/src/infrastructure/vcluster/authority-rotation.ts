// A cluster's authorities being exchanged, as files beside its keys.
//
//   next-NAME.crt, .key     made, and of nobody yet
//   former-ca.crt, .key     the one before: trusted, and what the API server's own certificate is signed by
//   rotation.json           from here on it is so, and until when
//
// What is written last decides: a crash before leaves what was, a crash after is gone on with by whoever reads the keys next.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { readJsonFile, readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { createAuthority, privateKeyPem } from "@gpve/kit/pki/x509.ts";

/** Of the authority before. */
export const FORMER_AUTHORITY = "former-ca";
/** Where both are trusted, one after the other. */
export const TRUST_FILE = "ca-trust.crt";
/** By which its objects are known in a store that others use too: it stays what it was. */
export const STORE_MARK_FILE = "store-mark";
const NOTE = "rotation.json";

/** What of it a copy of the keys has to have. */
export const ROTATION_FILES = [`${FORMER_AUTHORITY}.crt`, `${FORMER_AUTHORITY}.key`, NOTE] as const;

interface RotationNote {
  /** Milliseconds since the epoch. */
  readonly until: number;
  /** Control plane and workers have what the new one signed. */
  readonly isWhole?: true;
}

export class AuthorityRotation {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** undefined = there is one authority alone. */
  note(): RotationNote | undefined {
    return readJsonFile(this.#file(NOTE)) as RotationNote | undefined;
  }

  /** New authorities of these names, in place of those that are there. */
  async begin(names: Readonly<Record<string, string>>, now: number, until: number): Promise<void> {
    for (const [name, commonName] of Object.entries(names)) {
      if (!existsSync(this.#file(`${name}.key`))) continue;
      const { certPem, key } = await createAuthority(commonName, now);
      this.#write(`next-${name}.crt`, certPem);
      this.#write(`next-${name}.key`, await privateKeyPem(key));
    }
    if (!existsSync(this.#file(STORE_MARK_FILE)))
      this.#write(STORE_MARK_FILE, storeMark(this.#read("ca.crt")));
    for (const end of ["key", "crt"]) this.#write(`${FORMER_AUTHORITY}.${end}`, this.#read(`ca.${end}`));
    this.#write(NOTE, JSON.stringify({ until } satisfies RotationNote));
    this.goOn();
  }

  /** Where somebody stopped in between. */
  goOn(): void {
    if (this.note() === undefined) return;
    for (const file of this.#files(/^next-.*\.key$/)) {
      const name = file.replace(/^next-|\.key$/g, "");
      for (const end of ["crt", "key"]) this.#write(`${name}.${end}`, this.#read(`next-${name}.${end}`));
      for (const end of ["key", "crt"]) rmSync(this.#file(`next-${name}.${end}`), { force: true });
    }
  }

  settle(): void {
    const note = this.note();
    if (note !== undefined)
      this.#write(NOTE, JSON.stringify({ ...note, isWhole: true } satisfies RotationNote));
  }

  /** The one before is trusted no more. */
  drop(): void {
    rmSync(this.#file(NOTE), { force: true });
    this.clear();
  }

  /** What is of no use, where none is under way. */
  clear(): void {
    if (this.note() !== undefined) return;
    for (const file of this.#files(/^(?:next-.*|former-ca\.(?:crt|key)|ca-trust\.crt)$/))
      rmSync(this.#file(file), { force: true });
  }

  #files(pattern: RegExp): readonly string[] {
    return existsSync(this.#folder) ? readdirSync(this.#folder).filter((name) => pattern.test(name)) : [];
  }

  #file(name: string): string {
    return join(this.#folder, name);
  }

  #read(name: string): string {
    return readTextFile(this.#file(name)) ?? "";
  }

  #write(name: string, text: string): void {
    if (readTextFile(this.#file(name)) !== text) writeFileAtomic(this.#file(name), text);
  }
}

export function storeMark(caPem: string): string {
  return createHash("sha256").update(caPem).digest("hex").slice(0, 12);
}
