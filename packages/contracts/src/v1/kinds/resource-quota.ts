import { Type } from "typebox";
import type { KindDeclaration } from "../kind.ts";
import { LEAST_PRIORITY, MOST_PRIORITY } from "../scheduling.ts";
import { above, allOf, privilege, toChange, toRead } from "../permission.ts";

const closed = { additionalProperties: false } as const;
const size = (description: string) => Type.Optional(Type.String({ description, maxLength: 32 }));
const count = (description: string) => Type.Optional(Type.Integer({ description, minimum: 0 }));

const amounts = {
  cpu: Type.Optional(
    Type.Number({ minimum: 0, description: "Cores: of a VM cores x sockets, whatever is plugged in." }),
  ),
  memory: size("With its unit: 16Gi. Of a VM all that it may have."),
  storage: size("Of all disks together, as large as guests see them: 1Ti."),
  storages: Type.Optional(
    Type.Record(Type.String({ pattern: "^[A-Za-z][A-Za-z0-9_.-]*$" }), Type.String({ maxLength: 32 }), {
      description: "The same of single storages: {local: 100Gi}.",
    }),
  ),
  vmCount: count("VMs; templates are none."),
  ctCount: count("Containers."),
  vcCount: count("Virtual clusters."),
  gpuCount: count("Devices of the host that guests are given (hostpci)."),
  snapshots: count("Snapshots of all guests together."),
  backups: count("Backups of all guests together, on storages of their nodes."),
};
const bound = (description: string) => Type.Optional(Type.Object(amounts, { ...closed, description }));
const shown = (description: string) => Type.Optional(Type.Object(amounts, { description }));
const priority = Type.Integer({ minimum: LEAST_PRIORITY, maximum: MOST_PRIORITY });
const ratio = Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 1000 }));

const read = privilege("/pool/{metadata.namespace}", "Pool.Audit");
/** Whoever is bounded does not say how far. */
const change = allOf(read, above(privilege("/pool/{metadata.namespace}", "Pool.Allocate")));

export const resourceQuotaKind: KindDeclaration = {
  kind: "ResourceQuota",
  plural: "resourcequotas",
  aliases: ["resourcequota", "quota", "quotas"],
  scope: "tenant",
  namespaced: true,
  description:
    "How much a tenant and all tenants below may take. Only what is named is bounded; what is there already is counted, never taken away.",
  spec: Type.Object(
    {
      limits: bound("Of all that is defined, running or not."),
      requests: bound("Of what runs at once."),
      overcommit: Type.Optional(
        Type.Object(
          { cpu: ratio, memory: ratio },
          { ...closed, description: "How often cpu and memory may be given out: 1.5." },
        ),
      ),
      scopeSelector: Type.Optional(
        Type.Object(
          {
            state: Type.Optional(
              Type.Enum(["running", "stopped"], { description: "Only guests while they are in it." }),
            ),
            labels: Type.Optional(
              Type.Record(Type.String({ minLength: 1 }), Type.String(), {
                description: "Only guests with these tags: {gold: ''}.",
              }),
            ),
            priority: Type.Optional(
              Type.Object(
                { min: Type.Optional(priority), max: Type.Optional(priority) },
                {
                  ...closed,
                  description:
                    "Only guests whose spec.scheduling.priority (0 where they say none) lies between, both ends included: {min: 100}.",
                },
              ),
            ),
          },
          { ...closed, description: "Which guests count; without it all." },
        ),
      ),
    },
    closed,
  ),
  status: Type.Object({
    hard: Type.Object({ limits: shown("With overcommit."), requests: shown("With overcommit.") }),
    used: Type.Object({
      limits: shown("Of what is bounded."),
      requests: shown("Of what is bounded."),
    }),
    exceeded: Type.Array(Type.String(), {
      description: "What is over, as when a quota is set below what is there: limits.cpu.",
    }),
  }),
  namePattern: "^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+){0,2}$",
  permissions: {
    ...toRead(read),
    ...toChange(change),
    create: above(privilege("/pool/{metadata.namespace}", "Pool.Allocate")),
  },
  selectableFields: ["metadata.namespace"],
  columns: [
    { header: "NAME", field: "metadata.name" },
    { header: "TENANT", field: "metadata.namespace" },
    { header: "VMS", field: "status.used.limits.vmCount" },
    { header: "OF", field: "status.hard.limits.vmCount" },
    { header: "CPU", field: "status.used.limits.cpu" },
    { header: "OF", field: "status.hard.limits.cpu" },
    { header: "MEMORY", field: "status.used.limits.memory" },
    { header: "OF", field: "status.hard.limits.memory" },
    { header: "STORAGE", field: "status.used.limits.storage" },
    { header: "OF", field: "status.hard.limits.storage" },
    { header: "EXCEEDED", field: "status.exceeded", format: "list", wide: true },
  ],
  describe: [
    { title: "Quota", fields: ["spec.overcommit", "spec.scopeSelector"] },
    { title: "Defined", fields: ["status.used.limits", "status.hard.limits"] },
    { title: "Running", fields: ["status.used.requests", "status.hard.requests"] },
    { title: "Over", fields: ["status.exceeded"] },
  ],
  // After its tenant, before the guests that it bounds.
  applyOrder: 40,
  liveStatus: true,
};
