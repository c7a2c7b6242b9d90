import { AppError } from "@gpve/contracts/errors.ts";
import type { Fields } from "@gpve/contracts/json-object.ts";
import { roleKind } from "@gpve/contracts/v1/kinds/role.ts";
import { BUILTIN_ROLES, isBuiltinRole, isPrivilege } from "@gpve/domain/access/builtin-roles.ts";
import { privilegesOfRules, rulesOfPrivileges, type RoleRule } from "@gpve/domain/access/role-rules.ts";
import { sortedUnique } from "@gpve/domain/access/sorting.ts";
import type { Role } from "@gpve/domain/access/types.ts";
import type { CollectionDef, Entry } from "@gpve/store/records/port.ts";
import { removeAclEntries } from "../../access/acl.ts";
import { rolesDef } from "@gpve/domain/access/collections.ts";
import { byName, type KindAdapter, type RawObject } from "../adapter.ts";
import { mergePatch, sameJson } from "../merge-patch.ts";
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
        const wanted = privilegesOf(spec, privileges);
        const before = tx.get(rolesDef, name)?.value.privileges;
        if (before === undefined || !sameJson(before, wanted))
          tx.put(rolesDef, name, { roleid: name, privileges: wanted });
      },
      // A patch in one notation speaks about all of the role, whatever the other one said.
      patch: (current, patch) =>
        patch["rules"] === undefined || patch["rules"] === null
          ? (mergePatch(current, patch) as Fields)
          : patch,
      remove: (tx, { name }) => {
        requireCustom(name);
        tx.delete(rolesDef, name);
        removeAclEntries(tx, (entry) => entry.roleid === name);
      },
    },
  };
}

/** Either notation; both only where they say the same. */
function privilegesOf(spec: Fields, known: readonly string[]): readonly string[] {
  const rules = Array.isArray(spec["rules"])
    ? privilegesOfRules(spec["rules"] as unknown as readonly RoleRule[])
    : undefined;
  if (!Array.isArray(spec["privileges"])) {
    if (rules !== undefined) return rules;
    const why = "is required, or spec.rules in its place";
    throw new AppError("request.invalid", `the Role is not valid: spec.privileges ${why}`, {
      errors: { "spec.privileges": why },
    });
  }
  const wanted = sortedUnique(spec["privileges"].map(String));
  const unknown = wanted.find((privilege) => !isPrivilege(privilege));
  if (unknown !== undefined) {
    const close = didYouMean(unknown, known);
    const text = `'${unknown}' is not a privilege${close === undefined ? "" : `; did you mean '${close}'?`}`;
    throw new AppError("request.invalid", text, { errors: { "spec.privileges": text } });
  }
  if (rules !== undefined && !sameJson(rules, wanted)) {
    const text = `says ${rules.join(", ") || "nothing"}, and spec.privileges says ${wanted.join(", ") || "nothing"}; give one of them`;
    throw new AppError("request.invalid", `the Role is not valid: spec.rules ${text}`, {
      errors: { "spec.rules": text },
    });
  }
  return wanted;
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
    status: { builtin: false, rules: shownRules(entry.value) },
    revision: entry.revision,
    createRevision: entry.createRevision,
    generation: entry.version,
  };
}

function builtin(role: Role): RawObject {
  return {
    name: role.roleid,
    spec: { privileges: [...role.privileges] },
    status: { builtin: true, rules: shownRules(role) },
    revision: 0,
    createRevision: 0,
    generation: 1,
  };
}

function shownRules({ privileges }: Role): Fields[] {
  return rulesOfPrivileges(privileges).map((rule) => ({ ...rule }));
}
