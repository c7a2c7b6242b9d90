// The node's part of standbys, as servers ask for it.
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { isBranch } from "@gpve/domain/vcluster/overlay.ts";
import type { ClusterAuthority, ClusterGround, KeptClusters } from "@gpve/domain/vcluster/ports.ts";
import type { StandbyHost } from "@gpve/domain/vcluster/standby/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { OwnHandlers } from "../../agent.ts";
import { clusterWork, ownCluster } from "../asked-cluster.ts";
import { FOLLOW_CLUSTER, PROMOTE_CLUSTER, type StandbyArgs } from "./standby-operations.ts";

type StandbyRoute =
  | "PUT /gpve/nodes/{node}/vclusters/{vcluster}/standby"
  | "GET /gpve/nodes/{node}/vclusters/{vcluster}/standby-keys"
  | "PUT /gpve/nodes/{node}/vcluster-standbys/{vcluster}"
  | "DELETE /gpve/nodes/{node}/vcluster-standbys/{vcluster}"
  | "POST /gpve/nodes/{node}/vcluster-standbys/{vcluster}/promote";

export interface StandbyRouteDeps {
  readonly host: KeptClusters & ClusterAuthority & ClusterGround;
  readonly standbys: StandbyHost;
  readonly engine: Pick<OperationEngine, "submit">;
  /** Ends the process of the stores where it has none left. */
  readonly stopIfIdle: () => Promise<void>;
  /** Servers are to be told soon. */
  readonly changed: () => void;
}

export function standbyRoutes(deps: StandbyRouteDeps): OwnHandlers<StandbyRoute> {
  const { host, standbys, engine } = deps;
  const requireTenant = (vcluster: string, tenant: string): void => {
    const kept = standbys.get(vcluster);
    if (kept !== undefined && kept.tenant !== tenant)
      throw new AppError(
        "object.exists",
        `this node has a standby of a virtual cluster '${vcluster}' of another tenant`,
      );
  };
  const submit = clusterWork<StandbyArgs>(engine);
  return {
    "PUT /gpve/nodes/{node}/vclusters/{vcluster}/standby": ({
      vcluster,
      tenant,
      generation,
      mode,
      boundMs,
    }) => {
      standbys.lead(ownCluster(host, { vcluster, tenant }).name, { generation, mode, boundMs });
      deps.changed();
      return null;
    },
    "GET /gpve/nodes/{node}/vclusters/{vcluster}/standby-keys": async ({ vcluster, tenant }) => {
      const { name, version, etcdVersion } = ownCluster(host, { vcluster, tenant });
      return { version, ...given({ etcdVersion }), secrets: { ...(await host.authority(name, "replica")) } };
    },
    "PUT /gpve/nodes/{node}/vcluster-standbys/{vcluster}": async (asked, ctx) => {
      const { vcluster: name, called, tenant, spec, version, etcdVersion } = asked;
      const { generation, secrets, requestId } = asked;
      const kept = host.get(name);
      // Workers alone are no store that could be in its way.
      if (kept !== undefined && (kept.tenant !== tenant || !isBranch(kept)))
        throw new AppError(
          "object.exists",
          `this node has something of virtual cluster '${name}': it cannot be its standby`,
        );
      requireTenant(name, tenant);
      if (asked.network !== undefined) await requireNetwork(host, name, asked.network);
      const before = standbys.get(name);
      if (before !== undefined && before.generation > generation)
        throw new AppError(
          "object.conflict",
          `virtual cluster '${name}' is followed here as generation ${before.generation}, which is newer`,
        );
      // As a file, at once: what operations are told lies in the journal.
      const next = { name, tenant, spec: readVirtualClusterSpec(spec), version, generation, secrets };
      standbys.save({ ...next, ...given({ called, etcdVersion }) });
      deps.changed();
      return submit(FOLLOW_CLUSTER, { name }, requestId, ctx);
    },
    "DELETE /gpve/nodes/{node}/vcluster-standbys/{vcluster}": async ({ vcluster, tenant }) => {
      requireTenant(vcluster, tenant);
      await standbys.remove(vcluster);
      await deps.stopIfIdle();
      deps.changed();
      return null;
    },
    "POST /gpve/nodes/{node}/vcluster-standbys/{vcluster}/promote": (asked, ctx) => {
      requireTenant(asked.vcluster, asked.tenant);
      const standby = standbys.get(asked.vcluster);
      if (standby !== undefined) standbys.save({ ...standby, spec: readVirtualClusterSpec(asked.spec) });
      const { vcluster: name, network, overlay } = asked;
      const place = network === undefined || overlay === undefined ? undefined : { network, overlay };
      return submit(PROMOTE_CLUSTER, { name, ...given({ place }) }, asked.requestId, ctx);
    },
  };
}

/** Where it goes on, its workers on other nodes have to find it as they know it. */
async function requireNetwork(
  host: KeptClusters & ClusterGround,
  name: string,
  network: number,
): Promise<void> {
  const other = host.list().find((each) => each.name !== name && each.network === network);
  if (other !== undefined)
    throw new AppError(
      "object.conflict",
      `network ${network}, by which the workers of virtual cluster '${name}' know it, is on this node that of '${other.name}': it cannot be its standby`,
    );
  const refusal = await host.overlayRefusal();
  if (refusal !== undefined) throw new AppError("feature.unsupported", refusal);
}
