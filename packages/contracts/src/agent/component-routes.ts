// What servers ask of agents about programs that nodes have beside their packages.
import * as message from "./agent-messages.ts";
import { type AgentRouteDecl, check, perm, route } from "./route-declaration.ts";

/** Only from the addresses of the catalogue, but the node is the one that fetches. */
const installComponent = check([
  "and",
  perm("/nodes/{node}", "Sys.Modify"),
  ["or", perm("/", "Sys.Audit", "Sys.Modify"), perm("/nodes/{node}", "Sys.AccessNetwork")],
]);

export const componentRoutes = {
  "GET /gpve/nodes/{node}/components": route(
    check(perm("/nodes/{node}", "Sys.Audit")),
    message.ComponentsRequest,
    message.ComponentsAnswer,
  ),
  "POST /gpve/nodes/{node}/components/{component}/install": route(
    installComponent,
    message.ComponentInstallRequest,
    message.UpidAnswer,
  ),
  "POST /gpve/nodes/{node}/components/{component}/verify": route(
    check(perm("/nodes/{node}", "Sys.Audit")),
    message.ComponentVerifyRequest,
    message.UpidAnswer,
  ),
  // Programs that somebody brings run as root on this node: only root may bring them.
  "POST /gpve/nodes/{node}/components/{component}/import": route(
    null,
    message.ComponentImportRequest,
    message.UpidAnswer,
  ),
} as const satisfies Readonly<Record<string, AgentRouteDecl>>;
