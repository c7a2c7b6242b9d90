// An entry on a path stands in place of what its subject has from above, also where that is more. Whoever may give roles on
// a tenant or guest only because it is his could so shut out those who look after it from above.
import { refused } from "@gpve/domain/request/failures.ts";
import { aclDef, aclId } from "@gpve/domain/access/collections.ts";
import type { AccessModel } from "@gpve/domain/access/model.ts";
import { privilegeSource } from "@gpve/domain/access/privileges.ts";
import type { AclEntry } from "@gpve/domain/access/types.ts";
import { ROOT_USER, type AccessView } from "@gpve/domain/request/context.ts";
import type { Tx } from "@gpve/store/records/port.ts";
import { modelOfRecords } from "./model-of-records.ts";

/** What means anything on the path itself. */
const COUNTS: readonly (readonly [path: RegExp, privileges: RegExp])[] = [
  [/^\/pool\/./, /^(?:Permissions|Pool|Tenant|VM|VC|Datastore)\./],
  [/^\/vms\/./, /^(?:Permissions|VM)\./],
];

/** Part of adding an entry. Throws where somebody would lose by it. */
export function requireKeepsInherited(tx: Tx, entry: AclEntry, access: AccessView): void {
  const { path } = entry;
  const counts = COUNTS.find(([paths]) => paths.test(path))?.[1];
  if (counts === undefined || access.has(path, ["Permissions.Modify"])) return;
  const before = modelOfRecords(tx);
  const id = aclId(entry);
  const others = tx.list(aclDef).filter((one) => one.id !== id);
  const after = modelOfRecords(tx, { acl: [...others.map(({ value }) => value), entry] });
  for (const subject of subjectsOf(before, entry)) {
    const held = privilegeSource(after, subject, "whenever").privileges(path);
    const lost = [...privilegeSource(before, subject, "whenever").privileges(path).keys()].filter(
      (name) => counts.test(name) && !held.has(name),
    );
    if (lost.length === 0) continue;
    throw refused(
      `Cannot add role '${entry.roleid}' - '${subject}' would lose ${lost.join(", ")} on ${path}, held from above; that requires 'Permissions.Modify'`,
    );
  }
}

function subjectsOf(model: AccessModel, { type, ugid }: AclEntry): readonly string[] {
  const named = type === "group" ? [...(model.members.get(ugid) ?? [])] : [ugid];
  return named.filter((subject) => subject !== ROOT_USER);
}
