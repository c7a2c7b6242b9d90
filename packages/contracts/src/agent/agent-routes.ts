// What servers ask of agents beside PVE's methods, and what each needs of whoever asks. PVE's own methods have their
// permissions in the generated table; both are judged by the same evaluator.
import type { DeclaredRoute } from "../pve/routes.ts";
import type { PveCheck, PvePermission } from "../pve/schema.ts";

export interface AgentRouteDecl {
  readonly needs: PvePermission | { readonly like: DeclaredRoute };
}

const perm = (path: string, ...privileges: readonly string[]): PveCheck => ["perm", path, privileges];
const needs = (check: PveCheck): AgentRouteDecl => ({ needs: { check } });
const like = (route: DeclaredRoute): AgentRouteDecl => ({ needs: { like: route } });

/** A fixed list of addresses is fetched from, but the node is the one that fetches: as for a download by URL. */
const makeImage = needs([
  "and",
  perm("/nodes/{node}", "Sys.Modify"),
  perm("/storage/{storage}", "Datastore.AllocateTemplate"),
  ["or", perm("/", "Sys.Audit", "Sys.Modify"), perm("/nodes/{node}", "Sys.AccessNetwork")],
]);

export const agentRoutes = {
  "POST /gpve/nodes/{node}/probe": needs(perm("/nodes/{node}", "Sys.Modify")),
  "GET /gpve/nodes/{node}/images": needs([
    "perm",
    "/storage/{storage}",
    ["Datastore.Audit", "Datastore.AllocateSpace"],
    "any",
    1,
  ]),
  "POST /gpve/nodes/{node}/images/{image}/pull": makeImage,
  "POST /gpve/nodes/{node}/images/{image}/build": makeImage,

  "POST /gpve/nodes/{node}/virtual-machines": needs([
    "or",
    perm("/vms/{vmid}", "VM.Allocate"),
    ["perm", "/pool/{pool}", ["VM.Allocate"], "require_param", "pool"],
  ]),
  "DELETE /gpve/nodes/{node}/virtual-machines/{vmid}": like("DELETE /nodes/{node}/qemu/{vmid}"),
  "POST /gpve/nodes/{node}/vms/{vmid}/backup": needs([
    "and",
    perm("/vms/{vmid}", "VM.Backup"),
    perm("/storage/{storage}", "Datastore.AllocateSpace"),
  ]),
  "GET /gpve/nodes/{node}/vms/{vmid}/screenshot": needs(perm("/vms/{vmid}", "VM.Console")),
  "GET /gpve/nodes/{node}/vms/{vmid}/log": needs(perm("/vms/{vmid}", "VM.Audit")),

  "POST /gpve/nodes/{node}/vms/{vmid}/consoles": like("POST /nodes/{node}/qemu/{vmid}/vncproxy"),
  "POST /gpve/nodes/{node}/vms/{vmid}/spice": like("POST /nodes/{node}/qemu/{vmid}/spiceproxy"),
  "POST /gpve/nodes/{node}/shells": like("POST /nodes/{node}/termproxy"),

  "POST /gpve/nodes/{node}/storage-checks": like("POST /storage"),
  // Of mappings that are there, the server passes on those that whoever asks may see.
  "POST /gpve/nodes/{node}/mapping-checks": { needs: { user: "all" } },

  "TUNNEL /gpve/nodes/{node}/vms/{vmid}/console": like("GET /nodes/{node}/qemu/{vmid}/vncwebsocket"),
  "TUNNEL /gpve/nodes/{node}/vms/{vmid}/spice": like("POST /nodes/{node}/qemu/{vmid}/spiceproxy"),
  "TUNNEL /gpve/nodes/{node}/shell": like("GET /nodes/{node}/vncwebsocket"),
  "TUNNEL /gpve/nodes/{node}/storage/{storage}/upload": like("POST /nodes/{node}/storage/{storage}/upload"),
} as const satisfies Readonly<Record<string, AgentRouteDecl>>;

/** Every call to an agent names one of these. */
export type AgentRoute = keyof typeof agentRoutes | DeclaredRoute;

export type TunnelRoute = Extract<keyof typeof agentRoutes, `TUNNEL ${string}`>;

/** undefined = a method of PVE's, or none at all. */
export function agentRoute(key: string): AgentRouteDecl | undefined {
  return Object.hasOwn(agentRoutes, key) ? agentRoutes[key as keyof typeof agentRoutes] : undefined;
}
