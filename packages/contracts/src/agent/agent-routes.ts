// What servers ask of agents beside PVE's methods: what each needs of whoever asks, and the shapes of request and answer.
// PVE's own methods have their permissions and parameters in the generated table; all are judged by the same evaluator.
import type { Static } from "typebox";
import type { DeclaredRoute } from "../pve/routes.ts";
import * as message from "./agent-messages.ts";
import { componentRoutes } from "./component-routes.ts";
import { type AgentRouteDecl, check, like, perm, route } from "./route-declaration.ts";
import * as moves from "./vcluster-move-messages.ts";
import * as saves from "./vcluster-save-messages.ts";
import * as standby from "./vcluster-standby-messages.ts";

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

  ...componentRoutes,

  "POST /gpve/nodes/{node}/vclusters": route(
    check(perm("/pool/{tenant}", "VC.Allocate")),
    message.NewVclusterRequest,
    message.UpidAnswer,
  ),
  "DELETE /gpve/nodes/{node}/vclusters/{vcluster}": route(
    check(perm("/pool/{tenant}", "VC.Allocate")),
    message.VclusterDeleteRequest,
    message.UpidAnswer,
  ),
  // Who deletes it is told what would go with it.
  "GET /gpve/nodes/{node}/vclusters/{vcluster}/volumes": route(
    check(perm("/pool/{tenant}", "VC.Allocate")),
    message.VclusterRequest,
    message.VclusterVolumesAnswer,
  ),
  "POST /gpve/nodes/{node}/vclusters/{vcluster}/start": route(
    check(perm("/pool/{tenant}", "VC.Power")),
    message.VclusterWorkRequest,
    message.UpidAnswer,
  ),
  "POST /gpve/nodes/{node}/vclusters/{vcluster}/stop": route(
    check(perm("/pool/{tenant}", "VC.Power")),
    message.VclusterWorkRequest,
    message.UpidAnswer,
  ),
  "POST /gpve/nodes/{node}/vclusters/{vcluster}/retry": route(
    check(perm("/pool/{tenant}", "VC.Power")),
    message.VclusterWorkRequest,
    message.UpidAnswer,
  ),
  "GET /gpve/nodes/{node}/vclusters/{vcluster}/authority": route(
    check(perm("/pool/{tenant}", "VC.Allocate")),
    message.VclusterRequest,
    message.VclusterAuthorityAnswer,
  ),
  "GET /gpve/nodes/{node}/vclusters/{vcluster}/pods": route(
    check(perm("/pool/{tenant}", "VC.Audit")),
    message.VclusterRequest,
    message.VclusterPodsAnswer,
  ),
  "GET /gpve/nodes/{node}/vcluster-pods": route(
    check(perm("/nodes/{node}", "Sys.Audit")),
    message.VclusterPodsRequest,
    message.VclusterPodsAnswer,
  ),
  "POST /gpve/nodes/{node}/vclusters/{vcluster}/scale": route(
    check(perm("/pool/{tenant}", "VC.Config")),
    message.VclusterScaleRequest,
    message.UpidAnswer,
  ),
  "GET /gpve/nodes/{node}/vclusters/{vcluster}/scale": route(
    check(perm("/pool/{tenant}", "VC.Config")),
    message.VclusterScalableRequest,
    message.VclusterScalableAnswer,
  ),
  "POST /gpve/nodes/{node}/vclusters/{vcluster}/sleep": route(
    check(perm("/pool/{tenant}", "VC.Power")),
    message.VclusterSleepRequest,
    message.UpidAnswer,
  ),
  "POST /gpve/nodes/{node}/vclusters/{vcluster}/wake": route(
    check(perm("/pool/{tenant}", "VC.Power")),
    message.VclusterWakeRequest,
    message.UpidAnswer,
  ),
  "PUT /gpve/nodes/{node}/vclusters/{vcluster}/sleep-policy": route(
    check(perm("/pool/{tenant}", "VC.Config")),
    message.VclusterSleepPolicyRequest,
    message.NoAnswer,
  ),
  "PUT /gpve/nodes/{node}/vclusters/{vcluster}/quota": route(
    check(perm("/pool/{tenant}", "VC.Config", "VC.Allocate")),
    message.VclusterQuotaRequest,
    message.NoAnswer,
  ),
  "POST /gpve/nodes/{node}/vclusters/{vcluster}/kubeconfig": route(
    check(perm("/pool/{tenant}", "VC.Kubeconfig")),
    message.VclusterKubeconfigRequest,
    message.VclusterKubeconfigAnswer,
  ),
  "GET /gpve/nodes/{node}/vclusters/{vcluster}/kubeconfigs": route(
    check(perm("/pool/{tenant}", "VC.Kubeconfig")),
    message.VclusterKubeconfigsRequest,
    message.VclusterKubeconfigsAnswer,
  ),
  "DELETE /gpve/nodes/{node}/vclusters/{vcluster}/kubeconfigs/{id}": route(
    check(perm("/pool/{tenant}", "VC.Kubeconfig")),
    message.VclusterRevokeRequest,
    message.NoAnswer,
  ),
  "GET /gpve/nodes/{node}/vclusters/{vcluster}/log": route(
    check(perm("/pool/{tenant}", "VC.Audit")),
    saves.VclusterLogRequest,
    message.LogAnswer,
  ),
  "POST /gpve/nodes/{node}/vclusters/{vcluster}/backup": route(
    check([
      "and",
      perm("/pool/{tenant}", "VC.Backup"),
      perm("/storage/{storage}", "Datastore.AllocateSpace"),
    ]),
    saves.VclusterBackupRequest,
    message.UpidAnswer,
  ),
  "GET /gpve/nodes/{node}/vclusters/{vcluster}/backups": route(
    check(perm("/pool/{tenant}", "VC.Audit")),
    saves.VclusterBackupsRequest,
    saves.VclusterBackupsAnswer,
  ),
  "GET /gpve/nodes/{node}/vcluster-archive": route(
    check(perm("/pool/{tenant}", "VC.Backup")),
    saves.VclusterArchiveRequest,
    saves.VclusterArchiveAnswer,
  ),
  "POST /gpve/nodes/{node}/vclusters/{vcluster}/restore": route(
    check(["and", perm("/pool/{tenant}", "VC.Backup", "VC.Allocate"), perm("/pool/{source}", "VC.Backup")]),
    saves.VclusterRestoreRequest,
    message.UpidAnswer,
  ),
  "POST /gpve/nodes/{node}/vclusters/{vcluster}/upgrade": route(
    check(perm("/pool/{tenant}", "VC.Config")),
    saves.VclusterUpgradeRequest,
    message.UpidAnswer,
  ),
  "GET /gpve/nodes/{node}/vclusters/{vcluster}/upgrade-path": route(
    check(perm("/pool/{tenant}", "VC.Config")),
    saves.VclusterUpgradePathRequest,
    saves.VclusterUpgradePathAnswer,
  ),
  "POST /gpve/nodes/{node}/vclusters/{vcluster}/rotate-ca": route(
    check(perm("/pool/{tenant}", "VC.Config")),
    saves.VclusterRotateRequest,
    message.UpidAnswer,
  ),
  "PUT /gpve/nodes/{node}/vclusters/{vcluster}/authority": route(
    check(perm("/pool/{tenant}", "VC.Config")),
    saves.VclusterTakeAuthorityRequest,
    message.NoAnswer,
  ),
  "GET /gpve/nodes/{node}/vclusters/{vcluster}/rotation": route(
    check(perm("/pool/{tenant}", "VC.Config")),
    saves.VclusterRotationRequest,
    saves.VclusterRotationAnswer,
  ),
  "GET /gpve/nodes/{node}/vclusters/{vcluster}/place": route(
    check(perm("/pool/{tenant}", "VC.Config")),
    moves.VclusterPlaceRequest,
    moves.VclusterPlaceAnswer,
  ),
  "POST /gpve/nodes/{node}/vclusters/{vcluster}/arrive": route(
    check(perm("/pool/{tenant}", "VC.Config")),
    moves.VclusterArriveRequest,
    message.UpidAnswer,
  ),
  "POST /gpve/nodes/{node}/vclusters/{vcluster}/depart": route(
    check(perm("/pool/{tenant}", "VC.Config")),
    moves.VclusterMoveRequest,
    message.UpidAnswer,
  ),
  "POST /gpve/nodes/{node}/vclusters/{vcluster}/stay": route(
    check(perm("/pool/{tenant}", "VC.Config")),
    moves.VclusterMoveRequest,
    message.UpidAnswer,
  ),
  "POST /gpve/nodes/{node}/vclusters/{vcluster}/take-over": route(
    check(perm("/pool/{tenant}", "VC.Config")),
    moves.VclusterMoveRequest,
    message.UpidAnswer,
  ),
  "POST /gpve/nodes/{node}/vclusters/{vcluster}/turn-away": route(
    check(perm("/pool/{tenant}", "VC.Config")),
    moves.VclusterMoveRequest,
    message.UpidAnswer,
  ),
  "POST /gpve/nodes/{node}/vclusters/{vcluster}/let-go": route(
    check(perm("/pool/{tenant}", "VC.Config")),
    moves.VclusterLetGoRequest,
    message.UpidAnswer,
  ),
  "POST /gpve/nodes/{node}/vclusters/{vcluster}/worker-leave": route(
    check(perm("/pool/{tenant}", "VC.Config")),
    moves.VclusterWorkerLeaveRequest,
    message.UpidAnswer,
  ),
  "PUT /gpve/nodes/{node}/vclusters/{vcluster}/overlay": route(
    check(perm("/pool/{tenant}", "VC.Config")),
    moves.VclusterOverlayRequest,
    message.UpidAnswer,
  ),

  // How the store of a cluster goes with its standby; to its own node.
  "PUT /gpve/nodes/{node}/vclusters/{vcluster}/standby": route(
    check(perm("/pool/{tenant}", "VC.Config")),
    standby.VclusterLeadRequest,
    message.NoAnswer,
  ),
  "GET /gpve/nodes/{node}/vclusters/{vcluster}/standby-keys": route(
    check(perm("/pool/{tenant}", "VC.Config")),
    standby.VclusterStandbyRequest,
    standby.VclusterStandbyKeysAnswer,
  ),
  // A standby of a cluster of another node.
  "PUT /gpve/nodes/{node}/vcluster-standbys/{vcluster}": route(
    check(perm("/pool/{tenant}", "VC.Config")),
    standby.VclusterFollowRequest,
    message.UpidAnswer,
  ),
  "DELETE /gpve/nodes/{node}/vcluster-standbys/{vcluster}": route(
    check(perm("/pool/{tenant}", "VC.Config")),
    standby.VclusterStandbyRequest,
    message.NoAnswer,
  ),
  "POST /gpve/nodes/{node}/vcluster-standbys/{vcluster}/promote": route(
    check(perm("/pool/{tenant}", "VC.Config")),
    standby.VclusterPromoteRequest,
    message.UpidAnswer,
  ),

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
    message.BackUpVmRequest,
    message.UpidAnswer,
  ),
  "POST /gpve/nodes/{node}/vms/{vmid}/replicate": route(
    check(perm("/vms/{vmid}", "VM.Replicate")),
    message.ReplicateRequest,
    message.UpidAnswer,
  ),
  "POST /gpve/nodes/{node}/vms/{vmid}/replica/recover": route(
    check(perm("/vms/{vmid}", "VM.Migrate")),
    message.VmRequest,
    message.ReplicaAnswer,
  ),
  "DELETE /gpve/nodes/{node}/vms/{vmid}/replica": route(
    check(perm("/vms/{vmid}", "VM.Replicate")),
    message.DropReplicaRequest,
    message.NoAnswer,
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
  "TUNNEL /gpve/nodes/{node}/vms/{vmid}/port": route(
    check(perm("/vms/{vmid}", "VM.Console")),
    message.GuestPortRequest,
    message.GuestPortAnswer,
  ),
  "POST /gpve/nodes/{node}/vms/{vmid}/mtunnel": route(
    like("POST /nodes/{node}/qemu/{vmid}/mtunnel"),
    message.MtunnelRequest,
    message.MtunnelAnswer,
  ),
  "TUNNEL /gpve/nodes/{node}/vms/{vmid}/mtunnel": route(
    like("GET /nodes/{node}/qemu/{vmid}/mtunnelwebsocket"),
    message.MtunnelTunnelRequest,
    message.MtunnelTunnelAnswer,
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
