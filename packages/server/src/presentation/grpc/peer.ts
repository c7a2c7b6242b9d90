// Who is at the other end of an h2 session, by its TLS certificate. The listener asks for certificates but does
// not insist (REST clients have none), so the chain is judged here.
import type { TLSSocket } from "node:tls";
import {
  createContextKey,
  createContextValues,
  type ContextValues,
  type HandlerContext,
} from "@connectrpc/connect";
import { AppError } from "@gpve/contracts/errors.ts";
import { AGENT_ROLE, isSignedBy, readCertificate } from "@gpve/kit/pki/x509.ts";

export interface AgentPeer {
  readonly node: string;
  readonly fingerprint: string;
  readonly notBefore: number;
  readonly notAfter: number;
  /** It is to be replaced now: it comes from an authority that does not issue for agents any more. */
  readonly outdated: boolean;
}

const peerKey = createContextKey<AgentPeer | undefined>(undefined, { description: "agent certificate" });
const addressKey = createContextKey<string>("", { description: "remote address" });

export interface ReadPeerDeps {
  /** Who vouches for agents, the authority that issues first. */
  readonly agentCaPems: () => readonly string[];
  readonly now: () => number;
}

/** Whose certificate is shown on a TLS connection; undefined for strangers. Says nothing of membership. */
export type ReadPeer = (socket: unknown) => AgentPeer | undefined;

export function peerReader(deps: ReadPeerDeps): ReadPeer {
  // Judging a chain costs a signature check; a connection keeps its certificate, so once is enough.
  const judged = new WeakMap<object, AgentPeer | "nobody">();
  return (socket) => {
    const tls = socket as Partial<TLSSocket> & object;
    let peer = judged.get(tls);
    if (peer === undefined) {
      peer = agentPeer(tls.getPeerX509Certificate?.()?.toString(), deps.agentCaPems()) ?? "nobody";
      judged.set(tls, peer);
    }
    const now = deps.now();
    return peer !== "nobody" && peer.notBefore <= now && now < peer.notAfter ? peer : undefined;
  };
}

export function peerValues(socket: unknown, readPeer: ReadPeer): ContextValues {
  const values = createContextValues();
  values.set(peerKey, readPeer(socket));
  values.set(addressKey, (socket as Partial<TLSSocket>).remoteAddress ?? "");
  return values;
}

/** undefined: no certificate, or not one of an agent of this cluster. */
function agentPeer(certPem: string | undefined, authorities: readonly string[]): AgentPeer | undefined {
  if (certPem === undefined) return undefined;
  const facts = readCertificate(certPem);
  const issuer = authorities.findIndex((caPem) => isSignedBy(certPem, caPem));
  if (facts.role !== AGENT_ROLE || issuer < 0) return undefined;
  return {
    node: facts.commonName,
    fingerprint: facts.fingerprint,
    notBefore: facts.notBefore,
    notAfter: facts.notAfter,
    outdated: issuer > 0,
  };
}

export function requirePeer(context: HandlerContext): AgentPeer {
  const peer = context.values.get(peerKey);
  if (peer === undefined) {
    throw new AppError("auth.required", "this call needs the certificate of a node of this cluster");
  }
  return peer;
}

export function addressOf(context: HandlerContext): string {
  return context.values.get(addressKey);
}
