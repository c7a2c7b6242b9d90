// What servers ask of agents beside PVE's methods: what each needs of whoever asks, and the shapes of request and answer.
// PVE's own methods have their permissions and parameters in the generated table; all are judged by the same evaluator.
import type { Static, TSchema } from "typebox";
import type { DeclaredRoute } from "../pve/routes.ts";
import type { PveCheck, PvePermission } from "../pve/schema.ts";
import * as message from "./agent-messages.ts";

type Needs = PvePermission | { readonly like: DeclaredRoute };

export interface AgentRouteDecl<Q extends TSchema = TSchema, A extends TSchema = TSchema> {
  readonly needs: Needs;
  /** Checked by the node. */
  readonly request: Q;
  /** Checked by the server: a node may be anybody's. For tunnels, what the node says when it has opened one. */
  readonly answer: A;
}

const route = <Q extends TSchema, A extends TSchema>(
  needs: Needs,
  request: Q,
  answer: A,
): AgentRouteDecl<Q, A> => ({ needs, request, answer });
const perm = (path: string, ...privileges: readonly string[]): PveCheck => ["perm", path, privileges];
const check = (needed: PveCheck): Needs => ({ check: needed });
const like = (declared: DeclaredRoute): Needs => ({ like: declared });

/** A fixed list of addresses is fetched from, but the node is the one that fetches: as for a download by URL. */
const makeImage = check([
  "and",
  perm("/nodes/{node}", "Sys.Modify"),
  perm("/storage/{storage}", "Datastore.AllocateTemplate"),
  ["or", perm("/", "Sys.Audit", "Sys.Modify"), perm("/nodes/{node}", "Sys.AccessNetwork")],
]);

export const agentRoutes = {
  "POST /gpve/nodes/{node}/probe": route(
    check(perm("/nodes/{node}", "Sys.Modify")),
    message.ProbeRequest,
    message.UpidAnswer,
  ),
  "GET /gpve/nodes/{node}/images": route(
    check(["perm", "/storage/{storage}", ["Datastore.Audit", "Datastore.AllocateSpace"], "any", 1]),
    message.ImagesRequest,
    message.ImagesAnswer,
  ),
  "POST /gpve/nodes/{node}/images/{image}/pull": route(makeImage, message.ImageRequest, message.UpidAnswer),
  "POST /gpve/nodes/{node}/images/{image}/build": route(makeImage, message.ImageRequest, message.UpidAnswer),

  "POST /gpve/nodes/{node}/virtual-machines": route(
    check([
      "or",
      perm("/vms/{vmid}", "VM.Allocate"),
      ["perm", "/pool/{pool}", ["VM.Allocate"], "require_param", "pool"],
    ]),
    message.NewVmRequest,
    message.UpidAnswer,
  ),
  "DELETE /gpve/nodes/{node}/virtual-machines/{vmid}": route(
    like("DELETE /nodes/{node}/qemu/{vmid}"),
    message.RemoveVmRequest,
    message.UpidAnswer,
  ),
  "POST /gpve/nodes/{node}/vms/{vmid}/backup": route(
    check(["and", perm("/vms/{vmid}", "VM.Backup"), perm("/storage/{storage}", "Datastore.AllocateSpace")]),
    message.VmBackupRequest,
    message.UpidAnswer,
  ),
  "GET /gpve/nodes/{node}/vms/{vmid}/screenshot": route(
    check(perm("/vms/{vmid}", "VM.Console")),
    message.VmRequest,
    message.ScreenshotAnswer,
  ),
  "GET /gpve/nodes/{node}/vms/{vmid}/log": route(
    check(perm("/vms/{vmid}", "VM.Audit")),
    message.VmRequest,
    message.LogAnswer,
  ),

  "POST /gpve/nodes/{node}/vms/{vmid}/consoles": route(
    like("POST /nodes/{node}/qemu/{vmid}/vncproxy"),
    message.ConsoleRequest,
    message.ConsoleOfferAnswer,
  ),
  "POST /gpve/nodes/{node}/vms/{vmid}/spice": route(
    like("POST /nodes/{node}/qemu/{vmid}/spiceproxy"),
    message.VmRequest,
    message.SpiceOfferAnswer,
  ),
  "POST /gpve/nodes/{node}/shells": route(
    like("POST /nodes/{node}/termproxy"),
    message.ShellRequest,
    message.ConsoleOfferAnswer,
  ),

  "POST /gpve/nodes/{node}/storage-checks": route(
    like("POST /storage"),
    message.StorageCheckRequest,
    message.NoAnswer,
  ),
  // Of mappings that are there, the server passes on those that whoever asks may see.
  "POST /gpve/nodes/{node}/mapping-checks": route(
    { user: "all" },
    message.MappingCheckRequest,
    message.MappingCheckAnswer,
  ),

  "TUNNEL /gpve/nodes/{node}/vms/{vmid}/console": route(
    like("GET /nodes/{node}/qemu/{vmid}/vncwebsocket"),
    message.ConsoleTunnelRequest,
    message.ConsoleTunnelAnswer,
  ),
  "TUNNEL /gpve/nodes/{node}/vms/{vmid}/spice": route(
    like("POST /nodes/{node}/qemu/{vmid}/spiceproxy"),
    message.VmRequest,
    message.SpiceTunnelAnswer,
  ),
  "TUNNEL /gpve/nodes/{node}/shell": route(
    like("GET /nodes/{node}/vncwebsocket"),
    message.ShellTunnelRequest,
    message.ConsoleTunnelAnswer,
  ),
  "TUNNEL /gpve/nodes/{node}/storage/{storage}/upload": route(
    like("POST /nodes/{node}/storage/{storage}/upload"),
    message.UploadRequest,
    message.UploadAnswer,
  ),
} as const satisfies Readonly<Record<string, AgentRouteDecl>>;

type OwnRoute = keyof typeof agentRoutes;
export type TunnelRoute = Extract<OwnRoute, `TUNNEL ${string}`>;
/** Ours, answered at once. */
export type OwnCallRoute = Exclude<OwnRoute, TunnelRoute>;
/** Every call to an agent names one of these. */
export type AgentRoute = OwnCallRoute | DeclaredRoute;

/** As the node gets it. */
export type RequestOf<R extends OwnRoute> = Static<(typeof agentRoutes)[R]["request"]>;
export type AnswerOf<R extends OwnRoute> = Static<(typeof agentRoutes)[R]["answer"]>;

/** What a server says beside which node it calls. PVE's methods are checked by PVE's schemas, in the node. */
export type AskedOf<R extends AgentRoute | TunnelRoute> = R extends OwnRoute
  ? Omit<RequestOf<R>, "node">
  : Readonly<Record<string, unknown>>;
export type DataOf<R extends AgentRoute> = R extends OwnRoute ? AnswerOf<R> : unknown;

/** undefined = a method of PVE's, or none at all. */
export function agentRoute(key: string): AgentRouteDecl | undefined {
  return Object.hasOwn(agentRoutes, key) ? agentRoutes[key as OwnRoute] : undefined;
}
