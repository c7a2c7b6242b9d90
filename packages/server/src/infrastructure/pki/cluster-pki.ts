// What a server does with the cluster's authorities: it holds a certificate of its own and issues those of agents.
// Files in DIR/pki (mode 0600) hold the certificate of the servers' authority and this server's certificate and key.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import {
  AGENT_ROLE,
  SERVER_ROLE,
  covers,
  createKeyPair,
  dueForRenewal,
  isPair,
  isSignedBy,
  issue,
  loadKeyPair,
  readCertificate,
  readRequest,
  type CertificateAuthority,
} from "@gpve/kit/pki/x509.ts";
import { AGENT_DAYS, openAuthorities, type Authorities, type AuthoritiesDeps } from "./authorities.ts";

const SERVER_DAYS = 365;
export interface ServerTls {
  readonly keyPem: string;
  /** The server's certificate followed by its authority's. */
  readonly certPem: string;
  readonly caPem: string;
  /** "AA:BB:.." of the server's own certificate. */
  readonly fingerprint: string;
}

export interface ClusterPkiDeps extends AuthoritiesDeps {
  /** DIR/pki */
  readonly dir: string;
  /** Host name first, then every address and name clients may use. */
  readonly names: readonly string[];
}

export class ClusterPki {
  /** The servers' authority: what clients and agents are given to trust. */
  readonly caPem: string;
  readonly caFingerprint: string;
  readonly caFile: string;
  readonly #deps: ClusterPkiDeps;
  readonly #authorities: Authorities;
  readonly #listeners = new Set<(tls: ServerTls) => void>();
  #tls: ServerTls;

  private constructor(deps: ClusterPkiDeps, authorities: Authorities, tls: ServerTls) {
    this.#deps = deps;
    this.#authorities = authorities;
    this.#tls = tls;
    this.caPem = authorities.servers.certPem;
    this.caFingerprint = readCertificate(this.caPem).fingerprint;
    this.caFile = join(deps.dir, "ca.crt");
  }

  static async open(deps: ClusterPkiDeps): Promise<ClusterPki> {
    mkdirSync(deps.dir, { recursive: true, mode: 0o700 });
    const authorities = await openAuthorities(deps);
    const { servers } = authorities;
    writeFileAtomic(join(deps.dir, "ca.crt"), servers.certPem);
    const tls = (await loadServerTls(deps, servers)) ?? (await issueServerTls(deps, servers));
    return new ClusterPki(deps, authorities, tls);
  }

  /** Who vouches for agents, the authority that issues first. */
  agentCaPems(): readonly string[] {
    const { agents, servers, oldAgentsUntil } = this.#authorities;
    return this.#deps.clock.now() < oldAgentsUntil ? [agents.certPem, servers.certPem] : [agents.certPem];
  }

  /** For calls to agents: this server's certificate, and whom it believes there. */
  towardsAgents(): { readonly keyPem: string; readonly certPem: string; readonly caPem: string } {
    const { keyPem, certPem } = this.#tls;
    return { keyPem, certPem, caPem: this.agentCaPems().join("\n") };
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
    this.#tls = await issueServerTls(this.#deps, this.#authorities.servers);
    for (const listener of this.#listeners) listener(this.#tls);
    return true;
  }

  async keyFingerprint(csrPem: string): Promise<string> {
    return (await readRequest(csrPem)).keyFingerprint;
  }

  async issueAgent(csrPem: string, node: string): Promise<{ certPem: string; fingerprint: string }> {
    const request = await readRequest(csrPem);
    const certPem = await issue(this.#authorities.agents, request.key, {
      commonName: node,
      role: AGENT_ROLE,
      days: AGENT_DAYS,
      now: this.#deps.clock.now(),
    });
    return { certPem, fingerprint: readCertificate(certPem).fingerprint };
  }
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
