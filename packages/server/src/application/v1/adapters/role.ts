import { AppError } from "@gpve/contracts/errors.ts";
import { roleKind } from "@gpve/contracts/v1/kinds/role.ts";
import { BUILTIN_ROLES, isBuiltinRole, isPrivilege } from "@gpve/domain/access/builtin-roles.ts";
import type { Role } from "@gpve/domain/access/types.ts";
import type { CollectionDef, Entry } from "@gpve/store/records/port.ts";
import { removeAclEntries } from "../../access/acl.ts";
import { rolesDef } from "@gpve/domain/access/collections.ts";
import { byName } from "../adapter.ts";
import type { KindAdapter, RawObject } from "../adapter.ts";
import { didYouMean } from "@gpve/kit/did-you-mean.ts";

/** Custom roles from the store, and those shipped with the product. */
export function roleAdapter(knownPrivileges: Iterable<string>): KindAdapter {
  const privileges = [...knownPrivileges];
  return {
    kind: roleKind,
    collections: [rolesDef as CollectionDef<unknown>],
    list: (reader) =>
      [
        ...[...BUILTIN_ROLES.values()].map(builtin),
        ...reader
          .list(rolesDef)
          .filter((entry) => !isBuiltinRole(entry.id))
          .map(raw),
      ].toSorted(byName),
    get: (reader, name) => {
      const shipped = BUILTIN_ROLES.get(name);
      if (shipped !== undefined) return builtin(shipped);
      const entry = reader.get(rolesDef, name);
      return entry === undefined ? undefined : raw(entry);
    },
    onChange: (records, changed) => records.collection(rolesDef).onChange((id) => changed([id])),
    write: {
      put: (tx, { name, spec, previous }) => {
        requireCustom(name);
        if (previous === undefined && /^PVE/i.test(name)) {
          throw new AppError(
            "request.invalid",
            "names of roles must not start with 'PVE', in any letter case",
            {
              errors: { "metadata.name": "starts with 'PVE'" },
            },
          );
        }
        const wanted = Array.isArray(spec["privileges"]) ? spec["privileges"].map(String) : [];
        const unknown = wanted.find((privilege) => !isPrivilege(privilege));
        if (unknown !== undefined) {
          const close = didYouMean(unknown, privileges);
          const text = `'${unknown}' is not a privilege${close === undefined ? "" : `; did you mean '${close}'?`}`;
          throw new AppError("request.invalid", text, { errors: { "spec.privileges": text } });
        }
        tx.put(rolesDef, name, { roleid: name, privileges: [...new Set(wanted)].toSorted() });
      },
      remove: (tx, { name }) => {
        requireCustom(name);
        tx.delete(rolesDef, name);
        removeAclEntries(tx, (entry) => entry.roleid === name);
      },
    },
  };
}

function requireCustom(name: string): void {
  if (isBuiltinRole(name)) {
    throw new AppError("request.invalid", `role '${name}' is shipped with the product and cannot be changed`);
  }
}

function raw(entry: Entry<Role>): RawObject {
  return {
    name: entry.id,
    spec: { privileges: [...entry.value.privileges] },
    status: { builtin: false },
    revision: entry.revision,
    createRevision: entry.createRevision,
    generation: entry.version,
  };
}

function builtin(role: Role): RawObject {
  return {
    name: role.roleid,
    spec: { privileges: [...role.privileges] },
    status: { builtin: true },
    revision: 0,
    createRevision: 0,
    generation: 1,
  };
}
