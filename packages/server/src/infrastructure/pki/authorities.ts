// The cluster's certificate authorities, one for each role and none below another: what clients are given to trust
// (DIR/pki/ca.crt) vouches for servers and for nobody else. Keys lie in the store, sealed, so that every server can
// issue.
//
// Clusters from before had one authority for both roles. It stays as the servers' one, so that whoever trusts it goes
// on as before; agents get theirs beside it, and what they hold from the old one is good until it would have ended.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Sealer } from "@gpve/domain/access/ports.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import {
  createAuthority,
  loadPrivateKey,
  privateKeyPem,
  type CertificateAuthority,
} from "@gpve/kit/pki/x509.ts";
import type { CollectionDef, Records } from "@gpve/store/records/port.ts";

export const AGENT_DAYS = 90;
const DAY_MS = 86_400_000;

interface AuthorityRecord {
  readonly certPem: string;
  /** Sealed PKCS #8, PEM. */
  readonly sealedKey: string;
  /** On the agents' authority: until then agents may hold certificates of the servers' one. */
  readonly oldAgentsUntil?: number;
}

export const authorityRecords: CollectionDef<AuthorityRecord> = {
  prefix: "/gpve/secrets/pki/",
  decode: (json) => {
    const row = json as Partial<AuthorityRecord> | null;
    if (typeof row?.certPem !== "string" || typeof row.sealedKey !== "string") {
      throw new AppError("data.newer_version", "the stored certificate authority has an unknown shape");
    }
    const { certPem, sealedKey, oldAgentsUntil } = row;
    return { certPem, sealedKey, ...(typeof oldAgentsUntil === "number" ? { oldAgentsUntil } : {}) };
  },
};

/** Where each lies; what a key is sealed for says the same, so that no record passes for another. */
const SERVERS = "ca";
const AGENTS = "agents";

export interface Authorities {
  readonly servers: CertificateAuthority;
  readonly agents: CertificateAuthority;
  readonly oldAgentsUntil: number;
}

export interface AuthoritiesDeps {
  readonly records: Records;
  readonly sealer: Sealer;
  readonly clock: Clock;
  readonly clusterName: string;
}

/** Several servers may start at once on an empty store: the first to commit wins, the others take what it made. */
export async function openAuthorities(deps: AuthoritiesDeps): Promise<Authorities> {
  const { records } = deps;
  await records.fresh();
  const stored = records.collection(authorityRecords);
  let servers = stored.get(SERVERS)?.value;
  let agents = stored.get(AGENTS)?.value;
  if (servers === undefined || agents === undefined) {
    const made = {
      servers: await make(deps, SERVERS, `${deps.clusterName} CA`),
      agents: await make(deps, AGENTS, `${deps.clusterName} agents CA`),
    };
    const oldAgentsUntil = deps.clock.now() + AGENT_DAYS * DAY_MS;
    [servers, agents] = await records.transact((tx) => {
      const known = tx.get(authorityRecords, SERVERS)?.value;
      const ours = known === undefined ? made.agents : { ...made.agents, oldAgentsUntil };
      const theirs = tx.get(authorityRecords, AGENTS)?.value;
      if (known === undefined) tx.put(authorityRecords, SERVERS, made.servers);
      if (theirs === undefined) tx.put(authorityRecords, AGENTS, ours);
      return [known ?? made.servers, theirs ?? ours] as const;
    });
  }
  return {
    servers: await open(deps, SERVERS, servers),
    agents: await open(deps, AGENTS, agents),
    oldAgentsUntil: agents.oldAgentsUntil ?? 0,
  };
}

async function make(deps: AuthoritiesDeps, id: string, name: string): Promise<AuthorityRecord> {
  const made = await createAuthority(name, deps.clock.now());
  return { certPem: made.certPem, sealedKey: deps.sealer.seal(await privateKeyPem(made.key), `pki/${id}`) };
}

async function open(deps: AuthoritiesDeps, id: string, row: AuthorityRecord): Promise<CertificateAuthority> {
  return {
    certPem: row.certPem,
    key: await loadPrivateKey(deps.sealer.open(row.sealedKey, `pki/${id}`)),
  };
}
