// Where records of access lie in the cluster store.
import { objectRecords, type RecordCollection } from "../record/collection.ts";
import type { AclEntry, Group, Pool, Realm, Role, Token, User } from "./types.ts";

export const usersDef = accessRecords<User>("/gpve/access/users/");
export const groupsDef = accessRecords<Group>("/gpve/access/groups/");
export const rolesDef = accessRecords<Role>("/gpve/access/roles/");
/** By full id, "joe@pve!ci". */
export const tokensDef = accessRecords<Token>("/gpve/access/tokens/");
/** By `aclId`. */
export const aclDef = accessRecords<AclEntry>("/gpve/access/acl/");
export const realmsDef = accessRecords<Realm>("/gpve/access/realms/");
export const poolsDef = accessRecords<Pool>("/gpve/pools/");

/** Neither paths nor names hold a colon, so the id is unambiguous. */
export function aclId(entry: Pick<AclEntry, "path" | "type" | "ugid" | "roleid">): string {
  return `${entry.path}:${entry.type}:${entry.ugid}:${entry.roleid}`;
}

export function accessRecords<T extends object>(prefix: string): RecordCollection<T> {
  // A permission that cannot be read may be one that takes away.
  return { ...objectRecords<T>(prefix), allOrNothing: true };
}
