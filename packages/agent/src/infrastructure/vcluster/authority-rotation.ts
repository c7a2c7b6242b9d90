// A cluster's authorities being exchanged, as files beside its keys.
//
//   next-NAME.crt, .key     made, and of nobody yet
//   former-ca.crt, .key     the one before: trusted, and what the API server's own certificate is signed by
//   former-etcd-ca.crt …    and that of its etcd, whose members are started one after the other: each knows both, and shows what
//                           all of them know, until all know the new one (`isTurned`)
//   rotation.json           from here on it is so, and until when
//
// What is written last decides: a crash before leaves what was, a crash after is gone on with by whoever reads the keys next.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Authority, ClusterCertificate } from "@gpve/domain/vcluster/certificates.ts";
import { readJsonFile, readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { createAuthority, privateKeyPem } from "@gpve/kit/pki/x509.ts";

/** Of the authority before. */
export const FORMER_AUTHORITY = "former-ca";
export const FORMER_ETCD_AUTHORITY = "former-etcd-ca";
/** Where both are trusted, one after the other. */
export const TRUST_FILE = "ca-trust.crt";
export const ETCD_TRUST_FILE = "etcd-ca-trust.crt";
/** By which its objects are known in a store that others use too: it stays what it was. */
export const STORE_MARK_FILE = "store-mark";
export const NOTE = "rotation.json";

/** What of it a copy of the keys has to have; the note last. */
export const ROTATION_FILES = [`${FORMER_AUTHORITY}.crt`, `${FORMER_AUTHORITY}.key`, NOTE] as const;
/** What workers on other nodes have to know of it. */
export const TRUSTED_ROTATION_FILES = [`${FORMER_AUTHORITY}.crt`, NOTE] as const;
/** And other replicas of its control plane. */
export const REPLICA_ROTATION_FILES = [
  STORE_MARK_FILE,
  `${FORMER_ETCD_AUTHORITY}.crt`,
  `${FORMER_ETCD_AUTHORITY}.key`,
  ...ROTATION_FILES,
] as const;

interface RotationNote {
  /** Milliseconds since the epoch. */
  readonly until: number;
  /** Control plane and workers have what the new one signed. */
  readonly isWhole?: true;
  /** Members of its etcd show what the new one of theirs signed. */
  readonly isTurned?: true;
}

export type Signer = Authority | typeof FORMER_AUTHORITY | typeof FORMER_ETCD_AUTHORITY;

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
    for (const name of ["ca", "etcd-ca"])
      for (const end of ["key", "crt"])
        if (existsSync(this.#file(`${name}.${end}`)))
          this.#write(`former-${name}.${end}`, this.#read(`${name}.${end}`));
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
    this.#note({ isWhole: true });
  }

  turn(): void {
    this.#note({ isTurned: true });
  }

  /** Which one signs a certificate that is of that authority. */
  signer({ by, usage }: Pick<ClusterCertificate, "by" | "usage">): Signer {
    const note = this.note();
    if (note === undefined) return by;
    // Who knows only the authority before shall know the API server too, until that is dropped.
    if (by === "ca" && usage === "server") return FORMER_AUTHORITY;
    return by === "etcd-ca" && note.isTurned !== true && this.knowsFormerEtcd ? FORMER_ETCD_AUTHORITY : by;
  }

  get knowsFormerEtcd(): boolean {
    return this.note() !== undefined && existsSync(this.#file(`${FORMER_ETCD_AUTHORITY}.key`));
  }

  /** The one before is trusted no more. */
  drop(): void {
    rmSync(this.#file(NOTE), { force: true });
    this.clear();
  }

  /** What is of no use, where none is under way. */
  clear(): void {
    if (this.note() !== undefined) return;
    for (const file of this.#files(/^(?:next-.*|former-(?:etcd-)?ca\.(?:crt|key)|(?:etcd-)?ca-trust\.crt)$/))
      rmSync(this.#file(file), { force: true });
  }

  #note(more: Partial<RotationNote>): void {
    const note = this.note();
    if (note !== undefined) this.#write(NOTE, JSON.stringify({ ...note, ...more } satisfies RotationNote));
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
