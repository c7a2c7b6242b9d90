// Whether the peer at the other end of a line is a server of the cluster. The chain is verified by then: this tells
// servers from agents, whose certificates were signed by the servers' authority before agents had one of their own.
import { checkServerIdentity, type PeerCertificate } from "node:tls";
import { SERVER_ROLE } from "./x509.ts";

/** The reason to hang up; undefined for a server. */
export function notAServer(endpoint: string, certificate: PeerCertificate): Error | undefined {
  return certificate.subject.O === SERVER_ROLE
    ? undefined
    : new Error(`${endpoint} shows a certificate that is not a server's`);
}

/** For the first contact, when nothing but the address was given: the certificate must also be for that address. */
export function notTheServerAt(host: string, certificate: PeerCertificate): Error | undefined {
  return notAServer(host, certificate) ?? checkServerIdentity(host, certificate);
}
