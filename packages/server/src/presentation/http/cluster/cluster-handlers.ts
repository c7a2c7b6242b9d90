import { given } from "@gpve/contracts/given.ts";
import { PVE_RELEASE, PVE_VERSION, REPO_ID } from "@gpve/contracts/version.ts";
import type { DatacenterOptions } from "@gpve/domain/cluster/datacenter-options.ts";
import type { GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { PveReply, type PveHandlers } from "@gpve/domain/request/handler.ts";
import { clusterStatus, nodeList, type OwnCluster } from "../../../application/cluster/cluster-status.ts";
import type { DatacenterOptionsStore } from "../../../application/cluster/datacenter-options.ts";
import { clusterLog, type ClusterLogSources } from "../../../application/cluster/cluster-log.ts";
import { exportMetrics } from "../../../application/cluster/export-metrics.ts";
import type { ListResources } from "../../../application/cluster/list-resources.ts";

export interface ClusterHandlerDeps {
  readonly options: DatacenterOptionsStore;
  /** The lowest free VMID, or the given one when it is free. */
  readonly nextId: (wanted: number | undefined) => number;
  readonly board: NodeBoard;
  /** What clients of the API are shown at a node, where it has one. */
  readonly fingerprintOf: (node: string) => string;
  readonly resources: ListResources;
  readonly identity: OwnCluster;
  readonly guests: () => readonly GuestRecord[];
  readonly log: ClusterLogSources;
}

export function createClusterHandlers(deps: ClusterHandlerDeps): PveHandlers {
  return {
    "GET /version": () => {
      const console = deps.options.read()["console"];
      return {
        version: PVE_VERSION,
        release: PVE_RELEASE,
        repoid: REPO_ID,
        ...given({ console }),
      };
    },
    "GET /cluster/resources": ({ type }, ctx) => new PveReply({ rawJson: deps.resources.json(type, ctx) }),
    "GET /cluster/status": () => clusterStatus(deps.board, deps.identity),
    // The schema says integer; Go clients decode only a string.
    "GET /cluster/nextid": ({ vmid }) => String(deps.nextId(vmid)),
    "GET /cluster/options": () => deps.options.show(),
    "PUT /cluster/options": async ({ delete: remove, ...set }, ctx) => {
      const keys = remove?.split(/[,;\s]+/).filter((key) => key !== "") ?? [];
      await deps.options.update({ set: set as DatacenterOptions, delete: keys }, ctx.signal);
      return null;
    },
    "GET /cluster/log": ({ max }, ctx) => clusterLog(deps.log, ctx, max ?? 50),
    "GET /cluster/metrics/export": ({ "local-only": local, "node-list": list, "start-time": since }) => {
      const wanted = local === true ? [deps.identity.localNode] : list?.split(/[,;\s]+/);
      const views = deps.board.list().filter(({ node }) => wanted?.includes(node) ?? true);
      return { data: exportMetrics(views, deps.guests(), since ?? 0) };
    },
    "GET /nodes": (_params, ctx) => nodeList(deps.board, deps.fingerprintOf, ctx.access),
  };
}
