// The authority of the cluster's etcd, which every server has as it has the key of the cluster's secrets, and this
// member's certificate from it. Members and servers are the only ones with one: agents have another authority.
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import {
  SERVER_ROLE,
  createAuthority,
  createKeyPair,
  issue,
  loadPrivateKey,
  privateKeyPem,
  readCertificate,
} from "@gpve/kit/pki/x509.ts";
import type { EtcdPlaces } from "./etcd-places.ts";

const CERTIFICATE_DAYS = 825;
const DAY_MS = 86_400_000;

export async function ensureAuthority(places: EtcdPlaces, now: number): Promise<void> {
  if (existsSync(places.caFile) && existsSync(places.caKeyFile)) return;
  const authority = await createAuthority("gpve etcd", now);
  keepAuthority(places, authority.certPem, await privateKeyPem(authority.key));
}

/** As another server gave it. The key first: with the certificate it is complete. */
export function keepAuthority(places: EtcdPlaces, certPem: string, keyPem: string): void {
  mkdirSync(dirname(places.caFile), { recursive: true, mode: 0o700 });
  writeFileAtomic(places.caKeyFile, keyPem);
  writeFileAtomic(places.caFile, certPem);
}

/** etcd reads its files with each connection: a renewed certificate needs no restart. */
export async function ensureCertificate(
  places: EtcdPlaces,
  member: { readonly name: string; readonly address: string },
  now: number,
): Promise<void> {
  if (isGood(places, member.address, now)) return;
  const authority = {
    certPem: readFileSync(places.caFile, "utf8"),
    key: await loadPrivateKey(readFileSync(places.caKeyFile, "utf8")),
  };
  const pair = await createKeyPair();
  const certificate = await issue(authority, pair.keys.publicKey, {
    commonName: member.name,
    role: SERVER_ROLE,
    names: [...new Set([member.name, member.address, "localhost", "127.0.0.1"])],
    days: CERTIFICATE_DAYS,
    now,
  });
  writeFileAtomic(places.keyFile, pair.keyPem);
  writeFileAtomic(places.certFile, certificate);
  writeFileAtomic(`${places.certFile}.address`, `${member.address}\n`);
}

function isGood(places: EtcdPlaces, address: string, now: number): boolean {
  if (!existsSync(places.certFile) || !existsSync(places.keyFile)) return false;
  const { notAfter } = readCertificate(readFileSync(places.certFile, "utf8"));
  if (notAfter - now < (CERTIFICATE_DAYS * DAY_MS) / 3) return false;
  const of = `${places.certFile}.address`;
  return existsSync(of) && readFileSync(of, "utf8").trim() === address;
}
