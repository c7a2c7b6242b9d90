import { AppError } from "@gpve/contracts/errors.ts";
import { bindingKind } from "@gpve/contracts/v1/kinds/binding.ts";
import { isValidAclPath, normalizeAclPath } from "@gpve/domain/access/acl-path.ts";
import { BUILTIN_ROLES } from "@gpve/domain/access/builtin-roles.ts";
import type { AclEntry, AclSubject } from "@gpve/domain/access/types.ts";
import type { AccessView } from "@gpve/domain/request/context.ts";
import { ROOT_USER } from "@gpve/domain/request/context.ts";
import type { CollectionDef, Entry, Tx } from "@gpve/store/records/port.ts";
import { requireGrantable } from "../../access/acl.ts";
import { requireKeepsInherited } from "../../access/keep-inherited.ts";
import { aclDef, aclId, groupsDef, rolesDef, tokensDef, usersDef } from "@gpve/domain/access/collections.ts";
import { byName } from "../adapter.ts";
import type { KindAdapter, RawObject } from "../adapter.ts";

const KIND_OF = { user: "User", group: "Group", token: "Token" } as const satisfies Record<
  AclSubject,
  string
>;
const TYPE_OF: Readonly<Record<string, AclSubject>> = { User: "user", Group: "group", Token: "token" };

interface Subject {
  readonly kind: string;
  readonly name: string;
  readonly propagate: boolean;
}

/** All ACL entries of one role on one path are one binding, "PVEAdmin@/pool/web". */
export function bindingAdapter(): KindAdapter {
  return {
    kind: bindingKind,
    collections: [aclDef as CollectionDef<unknown>],
    list: (reader) => {
      const groups = Map.groupBy(reader.list(aclDef), (entry) => nameOf(entry.value));
      return [...groups].map(([name, entries]) => raw(name, entries)).toSorted(byName);
    },
    get: (reader, name) => {
      const entries = reader.list(aclDef).filter((entry) => nameOf(entry.value) === name);
      return entries.length === 0 ? undefined : raw(name, entries);
    },
    onChange: (records, changed) =>
      records.collection(aclDef).onChange((_id, entry, previous) => {
        const value = entry?.value ?? previous?.value;
        if (value !== undefined) changed([nameOf(value)]);
      }),
    write: {
      put: (tx, { name, spec, ctx }) => {
        const path = String(spec["path"]);
        const roleid = String(spec["role"]);
        if (normalizeAclPath(path) !== path || !isValidAclPath(path)) {
          throw new AppError("request.invalid", `'${path}' is not a path permissions can be given on`, {
            errors: { "spec.path": "is not a valid ACL path" },
          });
        }
        const wanted = subjectsOf(spec["subjects"]).map((subject) => toEntry(tx, path, roleid, subject));
        const known = tx.list(aclDef).filter((entry) => nameOf(entry.value) === name);
        const keep = new Map(wanted.map((entry) => [aclId(entry), entry]));
        if (keep.size !== wanted.length) throw new AppError("request.invalid", "a subject is given twice");
        for (const { id, value } of known) if (!keep.has(id)) removeEntry(tx, value, ctx.access);
        for (const [id, entry] of keep) {
          if (known.find((one) => one.id === id)?.value.propagate === entry.propagate) continue;
          grantable(tx, entry, ctx.access, false);
          requireKeepsInherited(tx, entry, ctx.access);
          tx.put(aclDef, id, entry);
        }
      },
      remove: (tx, { name, ctx }) => {
        for (const { value } of tx.list(aclDef))
          if (nameOf(value) === name) removeEntry(tx, value, ctx.access);
      },
    },
  };
}

function nameOf(entry: AclEntry): string {
  return `${entry.roleid}@${entry.path}`;
}

function raw(name: string, entries: readonly Entry<AclEntry>[]): RawObject {
  const [first] = entries;
  const subjects: Subject[] = entries.map(({ value }) => ({
    kind: KIND_OF[value.type],
    name: value.ugid,
    propagate: value.propagate,
  }));
  const pending = entries.some((entry) => entry.revision === 0);
  return {
    name,
    spec: {
      path: first?.value.path ?? "",
      role: first?.value.roleid ?? "",
      subjects: subjects.toSorted((a, b) => (`${a.kind}:${a.name}` < `${b.kind}:${b.name}` ? -1 : 1)),
    },
    status: {},
    revision: pending ? 0 : Math.max(...entries.map((entry) => entry.revision)),
    // Taking one entry away leaves the others' revisions as they are; newest and number together tell.
    versionSuffix: `-${entries.length}`,
    createRevision: Math.min(...entries.map((entry) => entry.createRevision)),
    generation: entries.reduce((sum, entry) => sum + entry.version, 0),
  };
}

function subjectsOf(value: unknown): readonly Subject[] {
  return Array.isArray(value) ? (value as readonly Subject[]) : [];
}

function toEntry(tx: Tx, path: string, roleid: string, subject: Subject): AclEntry {
  const type = TYPE_OF[subject.kind];
  if (type === undefined) throw new AppError("request.invalid", `'${subject.kind}' cannot be given a role`);
  const known = {
    user: () => subject.name === ROOT_USER || tx.get(usersDef, subject.name) !== undefined,
    group: () => tx.get(groupsDef, subject.name) !== undefined,
    token: () => tx.get(tokensDef, subject.name) !== undefined,
  }[type]();
  if (!known) {
    const text = `${subject.kind.toLowerCase()} '${subject.name}' does not exist`;
    throw new AppError("request.invalid", text, { errors: { "spec.subjects": text } });
  }
  return { path, type, ugid: subject.name, roleid, propagate: subject.propagate };
}

function removeEntry(tx: Tx, entry: AclEntry, access: AccessView): void {
  grantable(tx, entry, access, true);
  tx.delete(aclDef, aclId(entry));
}

/** Nobody hands out, or takes away, more than they hold themselves. */
function grantable(tx: Tx, entry: AclEntry, access: AccessView, remove: boolean): void {
  const role = BUILTIN_ROLES.get(entry.roleid) ?? tx.get(rolesDef, entry.roleid)?.value;
  if (role === undefined) {
    // A role that vanished gives nobody anything; its entries may go.
    if (remove) return;
    throw new AppError("request.invalid", `role '${entry.roleid}' does not exist`, {
      errors: { "spec.role": "does not exist" },
    });
  }
  requireGrantable(role, entry.path, { propagate: entry.propagate, remove }, access);
}
