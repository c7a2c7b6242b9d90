// The keys and certificates of one virtual cluster, as files that each belong to it alone. What is there stays, unless it
// would end soon.
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { type ClusterCertificate, type Authority } from "@gpve/domain/vcluster/certificates.ts";
import { kubeconfigText } from "@gpve/domain/vcluster/kubeconfig.ts";
import { readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { issueCertificate, type IssuedCertificate, publicKeyPem } from "@gpve/kit/pki/issue-certificate.ts";
import {
  type CertificateAuthority,
  covers,
  createAuthority,
  createKeyPair,
  dueForRenewal,
  loadPrivateKey,
  privateKeyPem,
  readCertificate,
} from "@gpve/kit/pki/x509.ts";

const YEAR_MS = 365 * 86_400_000;
const AUTHORITIES: Readonly<Record<Authority, string>> = {
  ca: "kubernetes-ca",
  "front-proxy-ca": "front-proxy-ca",
  "etcd-ca": "etcd-ca",
};

/** Authorities, and what somebody else gave us. */
const NOT_RENEWED = /^(?:ca|front-proxy-ca|etcd-ca|external-.*)\.crt$/;

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

  constructor(folder: string, clock: Clock) {
    this.#folder = folder;
    this.#clock = clock;
  }

  readonly file = (name: string): string => join(this.#folder, name);

  get caPem(): string {
    return this.#read("ca.crt");
  }

  /** Makes what is not there, and makes anew what would end soon or lacks a name. */
  async ensure(certificates: readonly ClusterCertificate[]): Promise<void> {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    for (const name of new Set(certificates.map(({ by }) => by))) await this.#ensureAuthority(name);
    await this.#ensureSecrets();
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
    await this.#ensureAuthority("ca");
    const names: readonly string[] = who === "workers" ? SHARED_FILES : REPLICA_FILES;
    if (who === "replica") {
      for (const name of ["front-proxy-ca", "etcd-ca"] as const) await this.#ensureAuthority(name);
      await this.#ensureSecrets();
    }
    return Object.fromEntries(names.map((name) => [name, this.#read(name)]));
  }

  takeAuthority(files: Readonly<Record<string, string>>): void {
    for (const name of REPLICA_FILES) if (files[name] !== undefined) this.take(name, files[name]);
  }

  /** The rest is another node's from now on. */
  keepAuthority(): void {
    const kept: readonly string[] = SHARED_FILES;
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
    const isGood =
      before !== undefined &&
      !dueForRenewal(readCertificate(before), this.#clock.now()) &&
      (wanted.names ?? []).every((name) => covers(before, name));
    if (isGood) return;
    const { certPem, keyPem } = await issueCertificate(await this.#authority(wanted.by), {
      ...wanted,
      now: this.#clock.now(),
      lifetimeMs: YEAR_MS,
    });
    writeFileAtomic(this.file(`${wanted.name}.key`), keyPem);
    writeFileAtomic(this.file(`${wanted.name}.crt`), certPem);
  }

  async #authority(name: Authority): Promise<CertificateAuthority> {
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
