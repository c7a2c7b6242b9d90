// Where access records lie in the cluster store.
import { AppError } from "@gpve/contracts/errors.ts";
import type { AclEntry, Group, Pool, Realm, Role, Token, User } from "@gpve/domain/access/types.ts";
import type { CollectionDef } from "@gpve/store/records/port.ts";

export const usersDef = define<User>("/gpve/access/users/");
export const groupsDef = define<Group>("/gpve/access/groups/");
export const rolesDef = define<Role>("/gpve/access/roles/");
/** By full id, "joe@pve!ci". */
export const tokensDef = define<Token>("/gpve/access/tokens/");
/** By `aclId`. */
export const aclDef = define<AclEntry>("/gpve/access/acl/");
export const realmsDef = define<Realm>("/gpve/access/realms/");
export const poolsDef = define<Pool>("/gpve/pools/");

/** A secret, sealed with the master key. */
export interface SealedSecret {
  readonly sealed: string;
}

/** Password hashes by userid. */
export const passwordsDef = define<SealedSecret>("/gpve/secrets/passwords/");
/** Digests of token secrets by full id. */
export const tokenSecretsDef = define<SealedSecret>("/gpve/secrets/tokens/");

export function passwordContext(userid: string): string {
  return `passwords/${userid}`;
}

export function tokenSecretContext(authid: string): string {
  return `tokens/${authid}`;
}

/** Neither paths nor names hold a colon, so the id is unambiguous. */
export function aclId(entry: Pick<AclEntry, "path" | "type" | "ugid" | "roleid">): string {
  return `${entry.path}:${entry.type}:${entry.ugid}:${entry.roleid}`;
}

function define<T extends object>(prefix: string): CollectionDef<T> {
  return {
    prefix,
    // A permission that cannot be read may be one that takes away.
    allOrNothing: true,
    decode: (json) => {
      if (typeof json === "object" && json !== null && !Array.isArray(json)) return json as T;
      throw new AppError(
        "data.newer_version",
        `a record below ${prefix} has a shape this version does not know`,
      );
    },
  };
}
