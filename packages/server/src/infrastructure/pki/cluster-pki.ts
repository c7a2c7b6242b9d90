// The cluster's certificate authority and this server's own certificate.
//
// The CA is made once per cluster; its key lies in the store, sealed, so that every server can issue. Files in
// DIR/pki (mode 0600) hold the CA's certificate and this server's certificate and key.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Sealer } from "@gpve/domain/access/ports.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import {
  AGENT_ROLE,
  SERVER_ROLE,
  covers,
  createAuthority,
  createKeyPair,
  dueForRenewal,
  isPair,
  isSignedBy,
  issue,
  loadKeyPair,
  loadPrivateKey,
  privateKeyPem,
  readCertificate,
  readRequest,
  type CertificateAuthority,
} from "@gpve/kit/pki/x509.ts";
import type { CollectionDef, Records } from "@gpve/store/records/port.ts";

const SERVER_DAYS = 365;
const AGENT_DAYS = 90;

interface CaRecord {
  readonly certPem: string;
  /** Sealed PKCS #8, PEM. */
  readonly sealedKey: string;
}

export const caRecords: CollectionDef<CaRecord> = {
  prefix: "/gpve/secrets/pki/",
  decode: (json) => {
    const row = json as Partial<CaRecord> | null;
    if (typeof row?.certPem !== "string" || typeof row.sealedKey !== "string") {
      throw new AppError("data.newer_version", "the stored certificate authority has an unknown shape");
    }
    return { certPem: row.certPem, sealedKey: row.sealedKey };
  },
};

export interface ServerTls {
  readonly keyPem: string;
  /** The server's certificate followed by the CA's. */
  readonly certPem: string;
  readonly caPem: string;
  /** "AA:BB:.." of the server's own certificate. */
  readonly fingerprint: string;
}

export interface ClusterPkiDeps {
  readonly records: Records;
  readonly sealer: Sealer;
  readonly clock: Clock;
  /** DIR/pki */
  readonly dir: string;
  readonly clusterName: string;
  /** Host name first, then every address and name clients may use. */
  readonly names: readonly string[];
}

export class ClusterPki {
  readonly caPem: string;
  readonly caFingerprint: string;
  readonly caFile: string;
  readonly #deps: ClusterPkiDeps;
  readonly #authority: CertificateAuthority;
  readonly #listeners = new Set<(tls: ServerTls) => void>();
  #tls: ServerTls;

  private constructor(deps: ClusterPkiDeps, authority: CertificateAuthority, tls: ServerTls) {
    this.#deps = deps;
    this.#authority = authority;
    this.#tls = tls;
    this.caPem = authority.certPem;
    this.caFingerprint = readCertificate(authority.certPem).fingerprint;
    this.caFile = join(deps.dir, "ca.crt");
  }

  static async open(deps: ClusterPkiDeps): Promise<ClusterPki> {
    mkdirSync(deps.dir, { recursive: true, mode: 0o700 });
    const authority = await openAuthority(deps);
    writeFileAtomic(join(deps.dir, "ca.crt"), authority.certPem);
    const tls = (await loadServerTls(deps, authority)) ?? (await issueServerTls(deps, authority));
    return new ClusterPki(deps, authority, tls);
  }

  serverTls(): ServerTls {
    return this.#tls;
  }

  /** Called with the new certificate after every rotation. Returns the unsubscribe. */
  onRotate(listener: (tls: ServerTls) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Renews this server's certificate when its last third has begun. True when it did. */
  async rotateIfDue(): Promise<boolean> {
    if (!dueForRenewal(readCertificate(this.#tls.certPem), this.#deps.clock.now())) return false;
    this.#tls = await issueServerTls(this.#deps, this.#authority);
    for (const listener of this.#listeners) listener(this.#tls);
    return true;
  }

  async keyFingerprint(csrPem: string): Promise<string> {
    return (await readRequest(csrPem)).keyFingerprint;
  }

  async issueAgent(
    csrPem: string,
    node: string,
    address: string,
  ): Promise<{ certPem: string; fingerprint: string }> {
    const request = await readRequest(csrPem);
    const certPem = await issue(this.#authority, request.key, {
      commonName: node,
      role: AGENT_ROLE,
      names: [node, address],
      days: AGENT_DAYS,
      now: this.#deps.clock.now(),
    });
    return { certPem, fingerprint: readCertificate(certPem).fingerprint };
  }
}

/** Several servers may start at once on an empty store: the first to commit wins, the others take its CA. */
async function openAuthority(deps: ClusterPkiDeps): Promise<CertificateAuthority> {
  const { records, sealer, clock } = deps;
  await records.fresh();
  let stored = records.collection(caRecords).get("ca")?.value;
  if (stored === undefined) {
    const made = await createAuthority(`${deps.clusterName} CA`, clock.now());
    const sealedKey = sealer.seal(await privateKeyPem(made.key), "pki/ca");
    const mine = { certPem: made.certPem, sealedKey };
    stored = await records.transact((tx) => {
      const theirs = tx.get(caRecords, "ca")?.value;
      if (theirs === undefined) tx.put(caRecords, "ca", mine);
      return theirs ?? mine;
    });
  }
  return {
    certPem: stored.certPem,
    key: await loadPrivateKey(sealer.open(stored.sealedKey, "pki/ca")),
  };
}

/** The certificate on disk, if it is still what this server needs. */
async function loadServerTls(
  deps: ClusterPkiDeps,
  authority: CertificateAuthority,
): Promise<ServerTls | undefined> {
  const certPem = readTextFile(join(deps.dir, "server.crt"));
  const keyPem = readTextFile(join(deps.dir, "server.key"));
  if (certPem === undefined || keyPem === undefined) return undefined;
  const facts = readCertificate(certPem);
  const good =
    isSignedBy(certPem, authority.certPem) &&
    !dueForRenewal(facts, deps.clock.now()) &&
    deps.names.every((name) => covers(certPem, name)) &&
    (await isPair(certPem, await loadKeyPair(keyPem)));
  return good ? tlsOf(keyPem, certPem, authority) : undefined;
}

async function issueServerTls(deps: ClusterPkiDeps, authority: CertificateAuthority): Promise<ServerTls> {
  const pair = await createKeyPair();
  const certPem = await issue(authority, pair.keys.publicKey, {
    commonName: deps.names[0] ?? "gpve",
    role: SERVER_ROLE,
    names: deps.names,
    days: SERVER_DAYS,
    now: deps.clock.now(),
  });
  // Key first: a crash in between leaves a pair that does not match, which the next start replaces.
  writeFileAtomic(join(deps.dir, "server.key"), pair.keyPem);
  writeFileAtomic(join(deps.dir, "server.crt"), certPem);
  return tlsOf(pair.keyPem, certPem, authority);
}

function tlsOf(keyPem: string, certPem: string, authority: CertificateAuthority): ServerTls {
  return {
    keyPem,
    certPem: `${certPem.trim()}\n${authority.certPem.trim()}\n`,
    caPem: authority.certPem,
    fingerprint: readCertificate(certPem).fingerprint,
  };
}
