// The keys and certificates of one virtual cluster, as files that each belong to it alone. What is there stays, unless it
// would end soon or was signed by an authority that is not its own any more.
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { type ClusterCertificate, type Authority } from "@gpve/domain/vcluster/certificates.ts";
import { kubeconfigText } from "@gpve/domain/vcluster/kubeconfig.ts";
import {
  mergeRevoked,
  readRevoked,
  type RevokedKubeconfigs,
  withRevoked,
} from "@gpve/domain/vcluster/revoked.ts";
import { readJsonFile, readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { issueCertificate, type IssuedCertificate, publicKeyPem } from "@gpve/kit/pki/issue-certificate.ts";
import {
  type CertificateAuthority,
  covers,
  createAuthority,
  createKeyPair,
  dueForRenewal,
  isSignedBy,
  loadPrivateKey,
  namesOn,
  privateKeyPem,
  readCertificate,
} from "@gpve/kit/pki/x509.ts";

import {
  AuthorityRotation,
  ETCD_TRUST_FILE,
  FORMER_AUTHORITY,
  FORMER_ETCD_AUTHORITY,
  NOTE,
  REPLICA_ROTATION_FILES,
  type Signer,
  STORE_MARK_FILE,
  storeMark,
  TRUST_FILE,
  TRUSTED_ROTATION_FILES,
} from "./authority-rotation.ts";

const YEAR_MS = 365 * 86_400_000;
const AUTHORITIES: Readonly<Record<Authority, string>> = {
  ca: "kubernetes-ca",
  "front-proxy-ca": "front-proxy-ca",
  "etcd-ca": "etcd-ca",
};

/** Authorities, and what somebody else gave us. */
const NOT_RENEWED =
  /^(?:(?:next-|former-)?(?:ca|front-proxy-ca|etcd-ca)|(?:etcd-)?ca-trust|external-.*)\.crt$/;
/** Of all the nodes that it has been on; more of them are nobody's any more. */
const MOST_NAMES = 200;

/** Beside the keys, as it goes wherever these go. */
export const REVOKED_FILE = "revoked.json";
/** The key last: with it the authority is there. */
const SHARED_FILES = ["ca.crt", "ca.key"] as const;
/** What all replicas of a control plane have alike. */
const REPLICA_FILES = [
  "sa.pub",
  "sa.key",
  "encryption.json",
  "front-proxy-ca.crt",
  "front-proxy-ca.key",
  "etcd-ca.crt",
  "etcd-ca.key",
  ...SHARED_FILES,
];

export class ClusterKeys {
  readonly #folder: string;
  readonly #clock: Clock;
  readonly #rotation: AuthorityRotation;

  constructor(folder: string, clock: Clock) {
    this.#folder = folder;
    this.#clock = clock;
    this.#rotation = new AuthorityRotation(folder);
  }

  readonly file = (name: string): string => join(this.#folder, name);

  /** Whom its clients trust: its authority, and the one before while that is good. */
  get caPem(): string {
    const own = this.#read("ca.crt");
    return this.#rotation.note() === undefined
      ? own
      : `${own.trimEnd()}\n${this.#read(`${FORMER_AUTHORITY}.crt`)}`;
  }

  /** The same, as the file that its parts read. */
  get trustFile(): string {
    return this.file(this.#rotation.note() === undefined ? "ca.crt" : TRUST_FILE);
  }

  /** Whom the members of its etcd, and who asks them, trust: the name of a file. */
  get etcdTrust(): string {
    return this.#rotation.knowsFormerEtcd ? ETCD_TRUST_FILE : "etcd-ca.crt";
  }

  /** By which its objects are known in a store that others use too. */
  get storeMark(): string {
    return readTextFile(this.file(STORE_MARK_FILE)) ?? storeMark(this.#read("ca.crt"));
  }

  /** Until when the authority before is good too; undefined = there is one alone. */
  get rotation(): { readonly until: number; readonly isWhole?: true } | undefined {
    return this.#rotation.note();
  }

  /** A new authority, trusted beside the one before; what it signs is made when the cluster is started again. */
  async rotate(until: number): Promise<void> {
    await this.#rotation.begin(AUTHORITIES, this.#clock.now(), until);
  }

  /** Kubeconfigs that were taken back. */
  get revoked(): RevokedKubeconfigs {
    return readRevoked(readJsonFile(this.file(REVOKED_FILE)));
  }

  revoke(id: string): void {
    this.#keepRevoked(withRevoked(this.revoked, id, this.#clock.now()));
  }

  /** Everybody has what the new one signed. */
  settleRotation(): void {
    this.#rotation.settle();
  }

  /** Members of its etcd show what the new one of theirs signed, when they are started again. */
  turnEtcd(): void {
    this.#rotation.turn();
  }

  dropFormer(): void {
    this.#rotation.drop();
  }

  /** Makes what is not there, and makes anew what would end soon or lacks a name. */
  async ensure(certificates: readonly ClusterCertificate[]): Promise<void> {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    this.#rotation.goOn();
    this.#rotation.clear();
    for (const name of new Set(certificates.map(({ by }) => by))) await this.#ensureAuthority(name);
    await this.#ensureSecrets();
    if (this.rotation !== undefined) this.take(TRUST_FILE, this.caPem);
    if (this.#rotation.knowsFormerEtcd)
      this.take(
        ETCD_TRUST_FILE,
        `${this.#read("etcd-ca.crt").trimEnd()}\n${this.#read(`${FORMER_ETCD_AUTHORITY}.crt`)}`,
      );
    for (const certificate of certificates) await this.#ensureCertificate(certificate);
  }

  /** Whether a certificate that we renew, here or in one of these folders, would end soon. */
  isDue(folders: readonly string[]): boolean {
    const now = this.#clock.now();
    return [this.#folder, ...folders]
      .filter((folder) => existsSync(folder))
      .flatMap((folder) => readdirSync(folder).map((name) => ({ name, path: join(folder, name) })))
      .filter(({ name }) => name.endsWith(".crt") && !NOT_RENEWED.test(name))
      .some(({ path }) => dueForRenewal(readCertificate(readTextFile(path) ?? ""), now));
  }

  /** A kubeconfig of one of the cluster's own parts. */
  writeKubeconfig(certificate: string, server: string): string {
    const path = this.file(`${certificate}.kubeconfig`);
    const text = kubeconfigText(
      {
        name: "cluster",
        user: certificate,
        server,
        caPem: this.caPem,
        certPem: this.#read(`${certificate}.crt`),
        keyPem: this.#read(`${certificate}.key`),
      },
      (plain) => Buffer.from(plain).toString("base64"),
    );
    if (readTextFile(path) !== text) writeFileAtomic(path, text);
    return path;
  }

  /** What signs for the cluster, made where it is not there: for other nodes that have workers of it, or a replica of its
   * control plane. */
  async authority(who: "workers" | "replica"): Promise<Readonly<Record<string, string>>> {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    this.#rotation.goOn();
    await this.#ensureAuthority("ca");
    const names: readonly string[] = who === "workers" ? SHARED_FILES : REPLICA_FILES;
    const rotating: readonly string[] = who === "workers" ? TRUSTED_ROTATION_FILES : REPLICA_ROTATION_FILES;
    if (who === "replica") {
      for (const name of ["front-proxy-ca", "etcd-ca"] as const) await this.#ensureAuthority(name);
      await this.#ensureSecrets();
    }
    const there = this.rotation === undefined ? [] : rotating.filter((name) => existsSync(this.file(name)));
    const files = Object.fromEntries([...names, ...there].map((name) => [name, this.#read(name)]));
    const revoked = who === "replica" ? readTextFile(this.file(REVOKED_FILE)) : undefined;
    return { ...files, ...(revoked === undefined ? {} : { [REVOKED_FILE]: revoked }) };
  }

  /** What signs, and what is to be trusted beside it, as another node has it. */
  takeAuthority(files: Readonly<Record<string, string>>): void {
    // Before the new one, whom everybody knows.
    for (const name of [...REPLICA_ROTATION_FILES, ...REPLICA_FILES])
      if (files[name] !== undefined) this.take(name, files[name]);
    if (files[NOTE] === undefined) this.#rotation.drop();
    const revoked = files[REVOKED_FILE];
    if (revoked !== undefined)
      this.#keepRevoked(mergeRevoked(this.revoked, readRevoked(JSON.parse(revoked))));
  }

  /** The rest is another node's from now on. */
  keepAuthority(): void {
    const kept: readonly string[] = [...SHARED_FILES, ...TRUSTED_ROTATION_FILES];
    for (const name of existsSync(this.#folder) ? readdirSync(this.#folder) : [])
      if (!kept.includes(name)) rmSync(this.file(name), { recursive: true, force: true });
  }

  /** One that was given to us, and is not ours to renew. */
  take(name: string, pem: string): void {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    if (readTextFile(this.file(name)) !== pem) writeFileAtomic(this.file(name), pem);
  }

  read(name: string): string {
    return this.#read(name);
  }

  /** For whoever asks now; nothing of it is kept. */
  async issue(
    certificate: Pick<ClusterCertificate, "commonName" | "organisation" | "usage" | "names">,
    lifetimeMs: number,
  ): Promise<IssuedCertificate> {
    return issueCertificate(await this.#authority("ca"), {
      ...certificate,
      now: this.#clock.now(),
      lifetimeMs,
    });
  }

  #keepRevoked(revoked: RevokedKubeconfigs): void {
    this.take(REVOKED_FILE, JSON.stringify(revoked));
  }

  async #ensureSecrets(): Promise<void> {
    if (!existsSync(this.file("sa.key"))) {
      const { keys, keyPem } = await createKeyPair();
      writeFileAtomic(this.file("sa.pub"), await publicKeyPem(keys.publicKey));
      writeFileAtomic(this.file("sa.key"), keyPem);
    }
    if (!existsSync(this.file("encryption.json")))
      writeFileAtomic(this.file("encryption.json"), encryptionConfig());
  }

  async #ensureAuthority(name: Authority): Promise<void> {
    if (existsSync(this.file(`${name}.key`))) return;
    const { certPem, key } = await createAuthority(AUTHORITIES[name], this.#clock.now());
    writeFileAtomic(this.file(`${name}.crt`), certPem);
    // Last: with its key it is there.
    writeFileAtomic(this.file(`${name}.key`), await privateKeyPem(key));
  }

  async #ensureCertificate(wanted: ClusterCertificate): Promise<void> {
    const before = readTextFile(this.file(`${wanted.name}.crt`));
    const by = this.#rotation.signer(wanted);
    const isGood =
      before !== undefined &&
      !dueForRenewal(readCertificate(before), this.#clock.now()) &&
      isSignedBy(before, this.#read(`${by}.crt`)) &&
      (wanted.names ?? []).every((name) => covers(before, name));
    if (isGood) return;
    // Who knows it by a node that it has left is passed on from there.
    const known = before === undefined || wanted.usage !== "server" ? [] : namesOn(before);
    const names = [...new Set([...(wanted.names ?? []), ...known])].slice(0, MOST_NAMES);
    const { certPem, keyPem } = await issueCertificate(await this.#authority(by), {
      ...wanted,
      names,
      now: this.#clock.now(),
      lifetimeMs: YEAR_MS,
    });
    writeFileAtomic(this.file(`${wanted.name}.key`), keyPem);
    writeFileAtomic(this.file(`${wanted.name}.crt`), certPem);
  }

  async #authority(name: Signer): Promise<CertificateAuthority> {
    this.#rotation.goOn();
    return {
      certPem: this.#read(`${name}.crt`),
      key: await loadPrivateKey(this.#read(`${name}.key`)),
    };
  }

  #read(name: string): string {
    const text = readTextFile(this.file(name));
    if (text === undefined)
      throw new AppError("internal.error", `${this.file(name)} is missing: the cluster has lost its keys`);
    return text;
  }
}

/** Secrets are encrypted before they come to the store. */
function encryptionConfig(): string {
  const secret = randomBytes(32).toString("base64");
  return JSON.stringify({
    apiVersion: "apiserver.config.k8s.io/v1",
    kind: "EncryptionConfiguration",
    resources: [
      {
        resources: ["secrets"],
        providers: [{ aescbc: { keys: [{ name: "key1", secret }] } }, { identity: {} }],
      },
    ],
  });
}
