import { alreadyThere, missing, parameterError, refused } from "@gpve/domain/request/failures.ts";
import { isBuiltinRole, isPrivilege } from "@gpve/domain/access/builtin-roles.ts";
import { listedNames } from "@gpve/domain/access/ids.ts";
import { sortedUnique } from "@gpve/domain/access/sorting.ts";
import type { Role } from "@gpve/domain/access/types.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { AccessDirectory } from "@gpve/domain/access/access-directory.ts";
import { removeAclEntries } from "./acl.ts";
import { rolesDef } from "@gpve/domain/access/collections.ts";
import { prefixed } from "./prefixed.ts";

export class Roles {
  readonly #records: Records;
  readonly #directory: AccessDirectory;

  constructor({ records, directory }: { readonly records: Records; readonly directory: AccessDirectory }) {
    this.#records = records;
    this.#directory = directory;
  }

  list(): Role[] {
    return [...this.#directory.model().roles.values()];
  }

  get(roleid: string): Role {
    const role = this.#directory.model().roles.get(roleid);
    if (role === undefined) throw noSuchRole(roleid);
    return role;
  }

  async create(roleid: string, privileges: string | undefined): Promise<void> {
    if (/^PVE/i.test(roleid)) {
      throw parameterError({
        roleid: "cannot use role ID starting with the (case-insensitive) 'PVE' namespace",
      });
    }
    await prefixed("create role failed", () =>
      this.#records.transact((tx) => {
        if (isBuiltinRole(roleid) || tx.get(rolesDef, roleid) !== undefined) {
          throw alreadyThere(`role '${roleid}' already exists`);
        }
        tx.put(rolesDef, roleid, { roleid, privileges: parsePrivileges(privileges) });
      }),
    );
  }

  async update(roleid: string, privileges: string | undefined, append: boolean): Promise<void> {
    if (isBuiltinRole(roleid)) throw refused(`auto-generated role '${roleid}' cannot be modified`);
    await prefixed("update role failed", () =>
      this.#records.transact((tx) => {
        const role = tx.get(rolesDef, roleid);
        if (role === undefined) throw noSuchRole(roleid);
        const kept = append ? role.value.privileges : [];
        const next = sortedUnique([...kept, ...parsePrivileges(privileges)]);
        tx.put(rolesDef, roleid, { roleid, privileges: next });
      }),
    );
  }

  async remove(roleid: string): Promise<void> {
    if (isBuiltinRole(roleid)) throw refused(`auto-generated role '${roleid}' cannot be deleted`);
    await prefixed("delete role failed", () =>
      this.#records.transact((tx) => {
        if (tx.get(rolesDef, roleid) === undefined) throw noSuchRole(roleid);
        tx.delete(rolesDef, roleid);
        removeAclEntries(tx, (entry) => entry.roleid === roleid);
      }),
    );
  }
}

function parsePrivileges(text: string | undefined): string[] {
  const names = listedNames(text);
  const unknown = names.find((name) => !isPrivilege(name));
  if (unknown !== undefined) throw refused(`invalid privilege '${unknown}'`);
  return sortedUnique(names);
}

function noSuchRole(roleid: string): Error {
  return missing(`role '${roleid}' does not exist`);
}
