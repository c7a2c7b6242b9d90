// What the nodes of a lab must have in common before they first start: the key of the cluster's secrets, and certificates
// with which etcd tells its members and the servers from every other program on this machine.
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { SERVER_ROLE, createAuthority, createKeyPair, issue } from "@gpve/kit/pki/x509.ts";
import type { Lab } from "./lab-plan.ts";

const MASTER_KEY_BYTES = 32;
const CERTIFICATE_DAYS = 3650;

export interface EtcdFiles {
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
}

/** As the nodes see them. */
export function etcdFiles(folder: string): EtcdFiles {
  const file = (name: string): string => join(folder, "pki", name);
  return { caFile: file("etcd-ca.crt"), certFile: file("etcd.crt"), keyFile: file("etcd.key") };
}

/** Made once; a start that was broken off is completed. */
export async function prepareSecrets(lab: Lab): Promise<void> {
  const folders = lab.nodes.map(({ folder }) => folder);
  const last = folders.at(-1) ?? "";
  if (existsSync(etcdFiles(last).certFile)) return;
  const now = Date.now();
  const authority = await createAuthority(`gpve lab ${lab.id} etcd`, now);
  const masterKey =
    readTextFile(join(folders[0] ?? "", "secrets", "master.key")) ??
    `${randomBytes(MASTER_KEY_BYTES).toString("hex")}\n`;
  for (const { folder, name, address } of lab.nodes) {
    for (const kind of ["pki", "secrets", "run", "log"])
      mkdirSync(join(folder, kind), { recursive: true, mode: 0o700 });
    const pair = await createKeyPair();
    const certificate = await issue(authority, pair.keys.publicKey, {
      commonName: name,
      role: SERVER_ROLE,
      names: [name, address],
      days: CERTIFICATE_DAYS,
      now,
    });
    writeFileAtomic(join(folder, "secrets", "master.key"), masterKey);
    const files = etcdFiles(folder);
    writeFileAtomic(files.caFile, authority.certPem);
    writeFileAtomic(files.keyFile, pair.keyPem);
    writeFileAtomic(files.certFile, certificate);
  }
}

export function hasCertificates(lab: Lab): boolean {
  return lab.nodes.every(({ folder }) => existsSync(join(folder, "pki", "server.crt")));
}

/** All servers show one certificate, so that one fingerprint is good for whichever answers. */
export function shareCertificate(lab: Lab): void {
  const [first, ...others] = lab.nodes;
  for (const name of ["server.key", "server.crt"]) {
    const text = readTextFile(join(first?.folder ?? "", "pki", name));
    if (text === undefined) continue;
    for (const { folder } of others)
      if (!existsSync(join(folder, "pki", name))) writeFileAtomic(join(folder, "pki", name), text);
  }
}
