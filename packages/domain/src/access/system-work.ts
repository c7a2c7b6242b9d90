import type { AgentRoute, TunnelRoute } from "@gpve/contracts/agent/agent-routes.ts";

/** Work that nobody asks for in a request, and what it may call. */
export const SYSTEM_WORK = {
  // Moves of plans that somebody approved, or the operator's configuration.
  rebalance: ["POST /nodes/{node}/qemu/{vmid}/migrate"],
  replication: [
    "POST /gpve/nodes/{node}/vms/{vmid}/replicate",
    "DELETE /gpve/nodes/{node}/vms/{vmid}/replica",
  ],
  "backup-job": ["POST /nodes/{node}/vzdump", "POST /gpve/nodes/{node}/vclusters/{vcluster}/backup"],
  // Who asked for the move was judged then; its steps may be those of another server, later.
  "vcluster-move": [
    "GET /gpve/nodes/{node}/vclusters/{vcluster}/place",
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/arrive",
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/depart",
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/stay",
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/take-over",
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/turn-away",
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/let-go",
    "PUT /gpve/nodes/{node}/vclusters/{vcluster}/overlay",
  ],
  "vcluster-worker-move": [
    "GET /gpve/nodes/{node}/vclusters/{vcluster}/place",
    "GET /gpve/nodes/{node}/vclusters/{vcluster}/authority",
    "POST /gpve/nodes/{node}/vclusters",
    "PUT /gpve/nodes/{node}/vclusters/{vcluster}/overlay",
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/worker-leave",
    "DELETE /gpve/nodes/{node}/vclusters/{vcluster}",
  ],
  // Node after node, likewise; and back, where one of them cannot.
  "vcluster-upgrade": ["POST /gpve/nodes/{node}/vclusters/{vcluster}/upgrade"],
  /** A server leads the exchange of a cluster's authority from node to node. */
  "vcluster-rotation": [
    "GET /gpve/nodes/{node}/vclusters/{vcluster}/authority",
    "PUT /gpve/nodes/{node}/vclusters/{vcluster}/authority",
    "GET /gpve/nodes/{node}/vclusters/{vcluster}/rotation",
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/rotate-ca",
  ],
  // A node is lost, and another gets the replica that it had.
  "vcluster-replicas": [
    "POST /gpve/nodes/{node}/vclusters",
    "GET /gpve/nodes/{node}/vclusters/{vcluster}/authority",
    "PUT /gpve/nodes/{node}/vclusters/{vcluster}/overlay",
    "DELETE /gpve/nodes/{node}/vclusters/{vcluster}",
  ],
  // The quota of a tenant leaves more or less for volumes of a cluster that nobody gave a bound.
  "vcluster-volumes": ["PUT /gpve/nodes/{node}/vclusters/{vcluster}/quota"],
  // Workers that do not come to one node do not stay on the others; who changed their number was judged then.
  "vcluster-scale": [
    "GET /gpve/nodes/{node}/vclusters/{vcluster}/scale",
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/scale",
  ],
  // A cluster's store is followed by a standby, and goes on from it when its node is lost.
  "vcluster-standby": [
    "PUT /gpve/nodes/{node}/vclusters/{vcluster}/standby",
    "GET /gpve/nodes/{node}/vclusters/{vcluster}/standby-keys",
    "PUT /gpve/nodes/{node}/vcluster-standbys/{vcluster}",
    "DELETE /gpve/nodes/{node}/vcluster-standbys/{vcluster}",
    "POST /gpve/nodes/{node}/vcluster-standbys/{vcluster}/promote",
    "PUT /gpve/nodes/{node}/vclusters/{vcluster}/overlay",
    "DELETE /gpve/nodes/{node}/vclusters/{vcluster}",
  ],
  // Who holds the ticket was judged when it was issued; the viewer itself has no other name.
  "spice-viewer": ["TUNNEL /gpve/nodes/{node}/vms/{vmid}/spice"],
  // Putting back what was there before an apply that failed.
  "undo-apply": [
    "PUT /nodes/{node}/qemu/{vmid}/config",
    "POST /nodes/{node}/qemu/{vmid}/status/start",
    "POST /nodes/{node}/qemu/{vmid}/status/stop",
    "POST /nodes/{node}/qemu/{vmid}/status/shutdown",
    "DELETE /gpve/nodes/{node}/virtual-machines/{vmid}",
  ],
} as const satisfies Readonly<Record<string, readonly (AgentRoute | TunnelRoute)[]>>;

export type SystemWork = keyof typeof SYSTEM_WORK;

export function isSystemWork(text: string): text is SystemWork {
  return Object.hasOwn(SYSTEM_WORK, text);
}
