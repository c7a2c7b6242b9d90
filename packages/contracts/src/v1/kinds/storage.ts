import { Type } from "typebox";
import type { KindDeclaration } from "../kind.ts";
import { allOf, privilege, toChange, toRead } from "../permission.ts";
import type { V1Permission } from "../permission.ts";

const read: V1Permission = {
  ...privilege("/storage/{name}", "Datastore.Audit", "Datastore.AllocateSpace"),
  mode: "any",
};
/** The answer shows the storage, so it must be theirs to see. */
const change = allOf(read, privilege("/storage", "Datastore.Allocate"));

const bytes = {
  totalBytes: Type.Integer(),
  usedBytes: Type.Integer(),
  availableBytes: Type.Integer(),
};

export const storageKind: KindDeclaration = {
  kind: "Storage",
  plural: "storages",
  aliases: ["storage"],
  scope: "cluster",
  description: "A place for disks, images and backups: a definition of /storage under /api2.",
  spec: Type.Object(
    {
      type: Type.String({ pattern: "^[a-z]+$", description: "dir, nfs, cifs, lvmthin; cannot be changed." }),
      content: Type.Optional(
        Type.Array(Type.String({ pattern: "^[a-z]+$" }), {
          uniqueItems: true,
          description:
            "images, rootdir, vztmpl, iso, backup, snippets, import; of dir also volumes: those of virtual clusters.",
        }),
      ),
      nodes: Type.Optional(
        Type.Array(Type.String({ minLength: 1, maxLength: 63 }), {
          uniqueItems: true,
          description: "Only these nodes have it; without it all.",
        }),
      ),
      shared: Type.Optional(Type.Boolean({ description: "The same on every node." })),
      disabled: Type.Optional(Type.Boolean()),
      options: Type.Optional(
        Type.Record(
          Type.String({ pattern: "^[a-z][a-z0-9_-]*$" }),
          Type.Union([Type.String({ maxLength: 4096 }), Type.Number(), Type.Boolean()]),
          {
            description:
              "Everything else, as PVE calls it: path, server, export, vgname, thinpool, prune-backups.",
          },
        ),
      ),
    },
    { additionalProperties: false },
  ),
  status: Type.Object({
    shared: Type.Boolean(),
    active: Type.Boolean({ description: "At least one node that has it can use it." }),
    nodes: Type.Array(
      Type.Object({
        node: Type.String(),
        active: Type.Boolean(),
        ...bytes,
        reason: Type.Optional(Type.String({ description: "Why it cannot be used there." })),
      }),
    ),
    ...bytes,
    tenants: Type.Array(Type.String(), { description: "Pools that it is a member of." }),
  }),
  namePattern: "^[A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9]$",
  nameWords:
    "at least two letters, digits, dots, dashes and underscores, a letter first, a letter or digit last",
  permissions: { ...toRead(read), ...toChange(change) },
  selectableFields: ["spec.type", "status.active"],
  columns: [
    { header: "NAME", field: "metadata.name" },
    { header: "TYPE", field: "spec.type" },
    { header: "ACTIVE", field: "status.active", format: "boolean" },
    { header: "SHARED", field: "status.shared", format: "boolean" },
    { header: "CONTENT", field: "spec.content", format: "list" },
    { header: "USED", field: "status.usedBytes", format: "bytes" },
    { header: "TOTAL", field: "status.totalBytes", format: "bytes" },
    { header: "TENANTS", field: "status.tenants", format: "list", wide: true },
  ],
  describe: [
    {
      title: "Storage",
      fields: ["spec.type", "spec.content", "spec.nodes", "spec.disabled", "spec.options"],
    },
    {
      title: "Space",
      fields: ["status.active", "status.totalBytes", "status.usedBytes", "status.availableBytes"],
    },
    { title: "Nodes", fields: ["status.shared", "status.nodes"] },
    { title: "Tenants", fields: ["status.tenants"] },
  ],
  // Before the guests whose disks are on it.
  applyOrder: 25,
  liveStatus: true,
};
