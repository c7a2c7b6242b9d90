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
}

const peerKey = createContextKey<AgentPeer | undefined>(undefined, { description: "agent certificate" });
const addressKey = createContextKey<string>("", { description: "remote address" });

export interface PeerSource {
  readonly caPem: () => string;
  readonly now: () => number;
}

export function peerValues(socket: unknown, source: PeerSource): ContextValues {
  const values = createContextValues();
  const tls = socket as Partial<TLSSocket> | undefined;
  values.set(addressKey, tls?.remoteAddress ?? "");
  values.set(peerKey, agentPeer(tls?.getPeerX509Certificate?.()?.toString(), source));
  return values;
}

/** undefined: no certificate, or not one of an agent of this cluster, or out of its time. */
export function agentPeer(certPem: string | undefined, source: PeerSource): AgentPeer | undefined {
  if (certPem === undefined) return undefined;
  const facts = readCertificate(certPem);
  const inTime = facts.notBefore <= source.now() && source.now() < facts.notAfter;
  if (facts.role !== AGENT_ROLE || !inTime || !isSignedBy(certPem, source.caPem())) return undefined;
  return {
    node: facts.commonName,
    fingerprint: facts.fingerprint,
    notBefore: facts.notBefore,
    notAfter: facts.notAfter,
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
