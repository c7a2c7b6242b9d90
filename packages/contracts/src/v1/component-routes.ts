// What /api/v1 offers of the programs that virtual clusters are made of. The node checks what each needs of whoever asks.
// Part of `fixedRoutes`.
import { ComponentRequestSchema, TaskRefSchema } from "./bodies.ts";
import { nodeKind } from "./kinds/node.ts";
import { authenticated, privilege } from "./permission.ts";

export const componentRoutes = [
  {
    operationId: "nodeComponents",
    method: "GET",
    path: "/nodes/{name}/components",
    summary: "Programs of virtual clusters that a node has or can have, by version",
    permission: privilege("/nodes/{name}", "Sys.Audit"),
    on: nodeKind,
    audit: "none",
    response: { status: 200, schema: "any" },
  },
  {
    operationId: "installComponent",
    method: "POST",
    path: "/nodes/{name}/components/{component}/install",
    summary: "Fetch a component and check it, or build it from Go modules, as an operation",
    permission: privilege("/nodes/{name}", "Sys.Modify"),
    on: nodeKind,
    audit: "write",
    body: ComponentRequestSchema,
    response: { status: 202, schema: TaskRefSchema },
  },
  {
    operationId: "verifyComponent",
    method: "POST",
    path: "/nodes/{name}/components/{component}/verify",
    summary: "Compare what is installed with what was installed, as an operation",
    permission: privilege("/nodes/{name}", "Sys.Audit"),
    on: nodeKind,
    audit: "write",
    body: ComponentRequestSchema,
    response: { status: 202, schema: TaskRefSchema },
  },
  {
    operationId: "importComponent",
    method: "POST",
    path: "/nodes/{name}/components/{component}/import",
    summary: "Take a component's programs from a folder on the node, as an operation; root@pam only",
    // The node lets nobody else in.
    permission: authenticated,
    audit: "write",
    body: ComponentRequestSchema,
    response: { status: 202, schema: TaskRefSchema },
  },
] as const;
