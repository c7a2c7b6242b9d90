import { BUILTIN_REALMS } from "@gpve/domain/access/access-directory.ts";
import {
  aclDef,
  groupsDef,
  poolsDef,
  realmsDef,
  rolesDef,
  tokensDef,
  usersDef,
} from "@gpve/domain/access/collections.ts";
import { buildAccessModel, type AccessModel, type AccessRecords } from "@gpve/domain/access/model.ts";
import type { CollectionDef, Entry } from "@gpve/store/records/port.ts";

interface ListReader {
  list<T>(collection: CollectionDef<T>): readonly Entry<T>[];
}

/** The access model as of a transaction: nobody is given more while something is decided by it. */
export function modelOfRecords(reader: ListReader, changed: Partial<AccessRecords> = {}): AccessModel {
  const all = <T>(def: CollectionDef<T>): T[] => reader.list(def).map(({ value }) => value);
  return buildAccessModel({
    users: all(usersDef),
    groups: all(groupsDef),
    roles: all(rolesDef),
    tokens: all(tokensDef),
    acl: all(aclDef),
    pools: all(poolsDef),
    realms: [...BUILTIN_REALMS.values(), ...all(realmsDef)],
    ...changed,
  });
}
