// The page about roles, for docs/reference.
import { table } from "../page/table.ts";
import { BUILTIN_ROLES } from "./builtin-roles.ts";
import { OWN_PRIVILEGES, OWN_ROLES } from "./own-roles.ts";
import { RESOURCE_ALIASES, RULE_ATOMS, WITHOUT_PRIVILEGE } from "./rule-table.ts";

export function rolesPage(): string {
  return [...TOP, ...roles(), ...TENANTS, ...privileges(), ...RULES, ...rules(), ""].join("\n");
}

const TOP = [
  "# Roles and privileges",
  "",
  "Generated from `packages/domain/src/access/own-roles.ts` and `rule-table.ts`.",
  "",
  "Privileges on paths are PVE's model, and both faces share it: a role is a set of privileges, a binding (an ACL entry) gives it to users, groups or tokens on a path. PVE's roles are as PVE has them; `Administrator` is every privilege there is.",
  "",
];

const TENANTS = [
  "",
  "## Inside a tenant",
  "",
  "A tenant is a pool. `gpvectl acl grant /pool/web tenant-admin --user joe@pve` is all that an administrator of a tenant needs, with the storages of the tenant as members of the pool; a bridge is given by the same role on `/sdn/zones/localnetwork/vmbr0`.",
  "",
  "- Users that he makes belong to his tenant (`metadata.namespace` of a User). He sees, changes and deletes those, sets their passwords and makes their tokens. They are of realms of type `pve` only.",
  "- He never manages a user who may do anything that he may not: whoever could set that user's password could be that user. So a role outside the tenant, given to one of its users, takes the user out of his hands as long as it is there.",
  "- He gives and takes roles on `/pool/web`, below it and on its guests, never more than he holds there. `NoAccess` is not his to give, and neither is a role that would stand in place of more that somebody has there from above.",
  "- He puts users into groups only where he has `User.Modify` on the group.",
  "- He makes tenants below his own (`web/dev`), and sets their quotas; not his own quota.",
  "- A guest leaves a tenant that has a quota only by who may set that quota.",
  "",
];

const RULES = [
  "",
  "## Rules",
  "",
  "A role can be written as rules, in the words of Kubernetes. They are a second notation for privileges: each line below is one privilege, kept as privileges, shown as `status.rules` of every role. A rule that privileges cannot say exactly is refused with the reason: a part of a line, `resourceNames` (bind the role on the path of the object instead), resources of other API groups.",
  "",
  "```yaml",
  "apiVersion: gpve.io/v1",
  "kind: Role",
  "metadata: { name: console-only }",
  "spec:",
  "  rules:",
  "    - apiGroups: [gpve.io]",
  "      resources: [virtualmachines]",
  "      verbs: [get, list, watch]",
  "    - apiGroups: [gpve.io]",
  "      resources: [virtualmachines/console]",
  "      verbs: [create]",
  "```",
  "",
  "`update` and `patch` on `virtualmachines` are all of `VM.Config.*`; the verb `*` is every verb of that resource, and `*` on `*` every privilege.",
  "",
];

function roles(): readonly string[] {
  return [
    "## Roles of gpve",
    "",
    ...table(
      ["role", "for"],
      Object.entries(OWN_ROLES).map(([name, { meaning }]) => [`\`${name}\``, meaning]),
    ),
    "",
    ...table(
      ["role", "privileges"],
      Object.keys(OWN_ROLES).map((name) => [`\`${name}\``, privilegesOf(name)]),
    ),
  ];
}

function privilegesOf(role: string): string {
  return role === "cluster-admin" ? "all" : (BUILTIN_ROLES.get(role)?.privileges ?? []).join(" ");
}

function privileges(): readonly string[] {
  return [
    "## Privileges that PVE does not have",
    "",
    "Clients of PVE see their names in `/access/roles` and `/access/permissions`, and pass them on. They count on `/pool/<tenant>` and what lies below.",
    "",
    ...table(
      ["privilege", "for"],
      Object.entries(OWN_PRIVILEGES).map(([name, meaning]) => [`\`${name}\``, meaning]),
    ),
  ];
}

function rules(): readonly string[] {
  const aliases = Object.entries(RESOURCE_ALIASES).map(([short, name]) => `\`${short}\` is \`${name}\``);
  return [
    ...table(
      ["resource", "verbs", "privilege"],
      RULE_ATOMS.map(({ resource, verbs, privilege }) => [resource, verbs.join(" "), privilege]),
    ),
    "",
    `Also: ${aliases.join(", ")}.`,
    "",
    "Without privileges of their own:",
    "",
    ...Object.entries(WITHOUT_PRIVILEGE).map(([resource, why]) => `- \`${resource}\`: ${why}.`),
  ];
}
