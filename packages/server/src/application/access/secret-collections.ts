// Secrets of access and of storages in the cluster store, each sealed with the master key. No agent reads them.
import { accessRecords } from "@gpve/domain/access/collections.ts";

export interface SealedSecret {
  readonly sealed: string;
}

/** Password hashes by userid. */
export const passwordsDef = accessRecords<SealedSecret>("/gpve/secrets/passwords/");
/** Digests of token secrets by full id. */
export const tokenSecretsDef = accessRecords<SealedSecret>("/gpve/secrets/tokens/");
/** Passwords of storages by storage and name. */
export const storageSecretsDef = accessRecords<SealedSecret>("/gpve/secrets/storage/");

export function passwordContext(userid: string): string {
  return `passwords/${userid}`;
}

export function tokenSecretContext(authid: string): string {
  return `tokens/${authid}`;
}
