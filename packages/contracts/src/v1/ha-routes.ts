// What /api/v1 offers of HA beside PVE's /cluster/ha: why things are as they are, and maintenance. Part of `fixedRoutes`.
import { HaMaintenanceRequestSchema } from "./bodies.ts";
import { nodeKind } from "./kinds/node.ts";
import { text } from "./query-parameters.ts";
import { privilege } from "./permission.ts";

export const haRoutes = [
  {
    operationId: "haEvidence",
    method: "GET",
    path: "/ha/evidence",
    summary: "What the HA manager, local managers and fence processes decided and did, oldest first",
    permission: privilege("/", "Sys.Audit"),
    audit: "none",
    query: [text("about", "Only what has to do with this service (vm:100) or node.")],
    response: { status: 200, schema: "any" },
  },
  {
    operationId: "haMaintenance",
    method: "POST",
    path: "/ha/nodes/{name}/maintenance",
    summary: "Move the guests under HA off a node, or let them come back",
    permission: privilege("/", "Sys.Console"),
    on: nodeKind,
    audit: "write",
    body: HaMaintenanceRequestSchema,
    response: { status: 202, schema: "any" },
  },
] as const;
