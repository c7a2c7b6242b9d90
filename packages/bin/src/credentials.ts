// credentials.json: what a person or tool on this machine needs to log in. Secrets are written down before they come
// into force: a start that fails halfway loses nothing, and a lost file gets a new token at the next start.
import { randomBytes, randomUUID } from "node:crypto";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { BootstrapOptions } from "@gpve/server/application/access/bootstrap.ts";
import type { OpenServer } from "@gpve/server/open-server.ts";
import { ROOT_USER } from "@gpve/domain/request/context.ts";
import { readCredentials, type CredentialsFile } from "./commands/welcome.ts";

/** What the server is to make of the file; nothing when an earlier start has finished. Makes the file if need be. */
export function prepareCredentials(data: DataDir, tokenName: string): BootstrapOptions {
  let file = readCredentials(data);
  if (file === undefined) {
    file = {
      url: "",
      fingerprint: "",
      caFile: data.file("pki", "ca.crt"),
      username: ROOT_USER,
      password: randomBytes(15).toString("base64url"),
      token: `${ROOT_USER}!${tokenName}=${randomUUID()}`,
    };
    write(data, file);
  }
  if (isComplete(file)) return {};
  const secret = file.token.slice(file.token.indexOf("=") + 1);
  return { rootPassword: file.password, token: { name: tokenName, secret } };
}

/** Completes the file once the server listens, and again with each new certificate: whoever pins it goes by the file. */
export function keepCredentials(data: DataDir, url: string, server: OpenServer): void {
  completeCredentials(data, url, server);
  server.certificates.onChange(() => completeCredentials(data, url, server));
}

/** A password that was not taken, because root has another, is not kept. */
function completeCredentials(data: DataDir, url: string, server: OpenServer): void {
  const file = readCredentials(data);
  if (file === undefined) return;
  const wasTaken = isComplete(file) || server.bootstrapped.rootPassword !== undefined;
  write(data, {
    ...file,
    url,
    fingerprint: server.certificates.shown().fingerprint,
    caFile: server.certificates.caFile,
    password: wasTaken ? file.password : "",
  });
}

function isComplete(file: CredentialsFile): boolean {
  return file.url !== "";
}

function write(data: DataDir, credentials: CredentialsFile): void {
  writeFileAtomic(data.file("credentials.json"), `${JSON.stringify(credentials, undefined, 2)}\n`);
}
