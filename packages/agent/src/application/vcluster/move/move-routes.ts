// The node's part of moves of control planes, as servers ask for it.
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { isBranch } from "@gpve/domain/vcluster/overlay.ts";
import type { ClusterGround, KeptCluster, KeptClusters } from "@gpve/domain/vcluster/ports.ts";
import type { ClusterAuthorities } from "@gpve/domain/vcluster/rotate/authorities.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import type { VnodeHost } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { OwnHandlers } from "../../agent.ts";
import { clusterWork, type NamedCluster, ownCluster } from "../asked-cluster.ts";
import {
  ARRIVE_CLUSTER,
  type ClusterArriveArgs,
  DEPART_CLUSTER,
  JOIN_CLUSTER,
  type JoinArgs,
  LET_CLUSTER_GO,
  type LetGoArgs,
  STAY_CLUSTER,
  TAKE_OVER_CLUSTER,
  TURN_CLUSTER_AWAY,
  WORKER_LEAVE,
  type WorkerLeaveArgs,
} from "./move-operations.ts";

type MoveRoute =
  | "GET /gpve/nodes/{node}/vclusters/{vcluster}/place"
  | `POST /gpve/nodes/{node}/vclusters/{vcluster}/${"arrive" | "depart" | "stay" | "take-over" | "turn-away" | "let-go"}`
  | "PUT /gpve/nodes/{node}/vclusters/{vcluster}/overlay"
  | "POST /gpve/nodes/{node}/vclusters/{vcluster}/worker-leave";

export interface ClusterMoveRouteDeps {
  readonly host: KeptClusters & ClusterGround;
  readonly vnodes: Pick<VnodeHost, "list">;
  readonly engine: Pick<OperationEngine, "submit">;
  readonly authorities: Pick<ClusterAuthorities, "rotation">;
  /** Resolves when it is awake. */
  readonly awake: (name: string) => Promise<void>;
}

interface Asked extends NamedCluster {
  readonly moveId: string;
  readonly requestId: string;
}

export function clusterMoveRoutes(deps: ClusterMoveRouteDeps): OwnHandlers<MoveRoute> {
  const { host, engine } = deps;
  const submit = clusterWork<ClusterArriveArgs | LetGoArgs | JoinArgs | WorkerLeaveArgs>(engine);
  const own = (asked: NamedCluster): KeptCluster => ownCluster(host, asked);
  /** What has not come, or has gone, is nothing to fail for. */
  const work =
    (type: string) =>
    (asked: Asked, ctx: RequestContext): Promise<string> => {
      if (host.get(asked.vcluster) !== undefined) own(asked);
      return submit(type, { name: asked.vcluster, moveId: asked.moveId }, asked.requestId, ctx);
    };
  return {
    "GET /gpve/nodes/{node}/vclusters/{vcluster}/place": (asked) => {
      const { name, phase, version, etcdVersion, network } = own(asked);
      const workers = deps.vnodes.list(name).length;
      // Its workers stay, and another node would have to exchange what they trust.
      if (workers > 0 && deps.authorities.rotation(name) !== undefined)
        throw new AppError(
          "object.conflict",
          `virtual cluster '${name}' still trusts its old authority: drop that first (gpvectl vc rotate-ca ${name} --drop-old --yes), then its control plane can leave its workers`,
        );
      return { phase, version, workers, ...given({ etcdVersion, network }) };
    },
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/arrive": async (asked, ctx) => {
      const {
        vcluster: name,
        called,
        tenant,
        moveId,
        version,
        etcdVersion,
        network,
        overlay,
        requestId,
      } = asked;
      const before = host.get(name);
      if (before !== undefined && (before.tenant !== tenant || before.overlay === undefined))
        throw new AppError("object.exists", `this node has a virtual cluster '${name}' already`);
      const other = host.list().find((each) => each.name !== name && each.network === network);
      if (network !== undefined && other !== undefined)
        throw new AppError(
          "object.conflict",
          `network ${network}, by which the workers of virtual cluster '${name}' know it, is on this node that of '${other.name}': choose another node`,
        );
      const refusal = overlay === undefined ? undefined : await host.overlayRefusal();
      if (refusal !== undefined) throw new AppError("feature.unsupported", refusal);
      const cluster: KeptCluster = {
        name,
        tenant,
        spec: readVirtualClusterSpec(asked.spec),
        version,
        phase: "Migrating",
        isWanted: true,
        ...given({ called, etcdVersion, network, overlay }),
      };
      return submit(ARRIVE_CLUSTER, { name, moveId, cluster }, requestId, ctx);
    },
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/depart": async (asked, ctx) => {
      const { name, phase } = own(asked);
      if (phase === "Running") await deps.awake(name);
      return submit(DEPART_CLUSTER, { name, moveId: asked.moveId }, asked.requestId, ctx);
    },
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/stay": work(STAY_CLUSTER),
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/take-over": work(TAKE_OVER_CLUSTER),
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/turn-away": work(TURN_CLUSTER_AWAY),
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/let-go": (asked, ctx) => {
      const { vcluster: name, moveId, overlay, requestId } = asked;
      if (host.get(name) !== undefined) own(asked);
      return submit(LET_CLUSTER_GO, { name, moveId, ...given({ overlay }) }, requestId, ctx);
    },
    "PUT /gpve/nodes/{node}/vclusters/{vcluster}/overlay": (asked, ctx) => {
      const { name } = ownCluster(host, asked);
      const { overlay, bring } = asked;
      return submit(JOIN_CLUSTER, { name, ...given({ overlay, bring }) }, asked.requestId, ctx);
    },
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/worker-leave": async (asked, ctx) => {
      const cluster = ownCluster(host, asked);
      // Its workers are drained by its API; a control plane on another node is that one's to wake.
      if (!isBranch(cluster)) await deps.awake(cluster.name);
      return submit(WORKER_LEAVE, { name: cluster.name, worker: asked.worker }, asked.requestId, ctx);
    },
  };
}
