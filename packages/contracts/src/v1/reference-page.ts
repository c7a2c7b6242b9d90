// docs/reference/api-v1.md, made from the declarations. See tools/gen/api-v1.ts.
import { apiExtensions } from "../api-extensions.ts";
import type { KindDeclaration } from "./kind.ts";
import { v1Kinds } from "./kinds.ts";
import { describePermission } from "./permission.ts";
import { fixedRoutes, routesOfKind, V1_PREFIX } from "./routes.ts";
import type { V1Route } from "./routes.ts";

const INTRODUCTION = `# /api/v1

Objects with \`apiVersion: gpve.io/v1\`, \`kind\`, \`metadata\`, \`spec\` (what is wanted) and \`status\` (what is). They are
the objects that /api2 shows: a pool is a tenant, all ACL entries of one role on one path are a binding. The whole
truth is the OpenAPI 3.1 document at \`/api/v1/openapi.json\`; \`/api/v1/openapi-api2.json\` has the PVE methods.

- **Credentials** are those of /api2: the ticket cookie with \`CSRFPreventionToken\` for changes, or an API token.
- **Refusals** are \`application/problem+json\` (RFC 9457) with a stable \`code\`, see [errors](errors.md), and a text per
  field in \`errors\`. What one may not see answers 403 whether it exists or not; lists leave it out.
- **Changes** carry \`metadata.resourceVersion\` to be refused with 409 when someone else was quicker; without it the
  last one wins. PATCH takes a JSON merge patch (RFC 7396). Unknown fields are refused.
- **Idempotency-Key** on any change: repeated within 24 hours by the same user it gives the first answer again, with
  the header \`Idempotency-Replayed: true\`. The same key with another request is refused with 409.
- **Lists** take \`labelSelector\` (\`a=b,c!=d,e in (x,y),f,!g\`) and \`fieldSelector\`; with \`limit\` they come in pages, all
  of one state, continued with \`continue\`.
- **Watches**: a list with \`watch=1\` is a stream of server-sent events \`ADDED\`, \`MODIFIED\`, \`DELETED\`, \`BOOKMARK\`.
  It begins with all objects, or after \`resourceVersion\` or \`Last-Event-ID\`. When the changes since then are not
  known any more the answer is 410: list again. \`ERROR\` carries a problem and ends the stream, for example when the
  credentials end or the permission is taken away.
- **Plan and apply**: \`POST /api/v1/plan\` with \`{"objects": [...]}\` says what would change, field by field;
  \`POST /api/v1/apply\` makes it so as one task with a step per object, undone as a whole when a step fails. What
  somebody else has changed meanwhile is then left as it is, and named in the task's log and exit status. Labels and
  annotations that an object does not mention stay; spec becomes exactly what is given.
- **Virtual machines** are changed by their node, with the same checks and effects as under /api2: what a running guest
  cannot take waits for its next start. Applied again they stay as they are: \`local:8\` is the disk that was made of it,
  a NIC without an address keeps the one it drew, and \`boot\`, \`meta\`, \`smbios1\`, \`vmgenid\` and unused disks stay
  unless they are given otherwise. Applying grows no disks and takes \`cipassword\` only as a hash.
`;

const NAMES_IN_TENANT =
  " Names are unique in their tenant: a path without one means the only object of that name that whoever asks may see; where he may see several, it takes `?tenant=`, or is refused with their tenants.";

export function referencePage(): string {
  return [
    INTRODUCTION,
    "## Extensions\n",
    "Clients ask for a feature by name, `GET /api/v1` lists them.\n",
    table(
      ["name", "what"],
      apiExtensions.map(({ name, description }) => [`\`${name}\``, description]),
    ),
    "## Kinds\n",
    ...v1Kinds.map(kindSection),
    "## Everything else\n",
    routesTable(fixedRoutes),
  ].join("\n");
}

function kindSection(kind: KindDeclaration): string {
  const fields = ["metadata.name", ...kind.selectableFields].map((field) => `\`${field}\``).join(", ");
  return [
    `### ${kind.kind}\n`,
    `${kind.description} Selectable: ${fields}.${kind.applyOrder === undefined ? "" : " Can be applied."}${kind.namespaced === true ? " All of it also below `/api/v1/tenants/{tenant}`, for what is of that tenant." : ""}${kind.namesInTenant === true ? NAMES_IN_TENANT : ""}\n`,
    routesTable(routesOfKind(kind)),
  ].join("\n");
}

function routesTable(routes: readonly V1Route[]): string {
  return table(
    ["request", "what", "needs"],
    routes.map((route) => [
      `\`${route.method} ${V1_PREFIX}${route.path}\``,
      route.summary,
      describePermission(route.permission),
    ]),
  );
}

/** Aligned as the formatter wants it. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = [head, ...rows].map((row) => row.map((cell) => cell.replaceAll("|", "\\|")));
  const widths = head.map((_cell, column) => Math.max(3, ...cells.map((row) => (row[column] ?? "").length)));
  const line = (row: readonly string[]): string =>
    `| ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  const [first = [], ...rest] = cells;
  const rule = `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`;
  return `${[line(first), rule, ...rest.map(line)].join("\n")}\n`;
}
