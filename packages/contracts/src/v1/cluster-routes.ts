// What /api/v1 offers of the cluster as a whole. Part of `fixedRoutes`.
import { Type } from "typebox";
import { DefaultsSchema, JoinTokenRequestSchema, JoinTokenSchema, StoreMembersSchema } from "./bodies.ts";
import { allOf, authenticated, privilege } from "./permission.ts";

export const clusterRoutes = [
  {
    operationId: "showDefaults",
    method: "GET",
    path: "/defaults",
    summary: "What is taken where a request does not say: storages, and what VMs of a node get",
    permission: authenticated,
    audit: "none",
    query: [{ name: "node", description: "The node whose VMs are meant.", schema: Type.String() }],
    response: { status: 200, schema: DefaultsSchema },
  },
  {
    operationId: "listStoreMembers",
    method: "GET",
    path: "/store-members",
    summary: "The members of the cluster's etcd, and how they do",
    permission: privilege("/", "Sys.Audit"),
    audit: "none",
    response: { status: 200, schema: StoreMembersSchema },
  },
  {
    operationId: "removeStoreMember",
    method: "DELETE",
    path: "/store-members/{member}",
    summary: "Take a lost member out of an etcd that gpve runs, so that another server takes its place",
    permission: privilege("/", "Sys.Modify"),
    audit: "write",
    response: { status: 200, schema: "any" },
  },
  {
    operationId: "createServerJoinToken",
    method: "POST",
    path: "/server-join-tokens",
    summary:
      "A one-time token with which a further server joins; shown once. Whoever has it gets the cluster's keys: root@pam only",
    // Beside that, root@pam alone: the handler sees to it.
    permission: allOf(privilege("/", "Sys.Modify"), privilege("/", "Permissions.Modify")),
    audit: "write",
    body: JoinTokenRequestSchema,
    response: { status: 201, schema: JoinTokenSchema },
  },
  {
    operationId: "createJoinToken",
    method: "POST",
    path: "/join-tokens",
    summary: "A one-time token with which a node joins; shown once",
    permission: allOf(privilege("/", "Sys.Modify"), privilege("/nodes", "Sys.Modify")),
    audit: "write",
    body: JoinTokenRequestSchema,
    response: { status: 201, schema: JoinTokenSchema },
  },
] as const;
