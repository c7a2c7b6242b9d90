// What PVE keeps in corosync's configuration. There is no corosync here; who is in the cluster is known all the same.
import { AppError } from "@gpve/contracts/errors.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";

export interface ConfigHandlerDeps {
  readonly board: NodeBoard;
  /** undefined: one node, no cluster. */
  readonly clusterName: string | undefined;
  readonly removeNode: (node: string) => Promise<void>;
}

export function createConfigHandlers({ board, clusterName, removeNode }: ConfigHandlerDeps): PveHandlers {
  return {
    "GET /cluster/config/nodes": () =>
      clusterName === undefined
        ? []
        : board.list().map(({ node, address }, at) => ({
            node,
            name: node,
            nodeid: String(at + 1),
            quorum_votes: "1",
            ring0_addr: address,
          })),
    "DELETE /cluster/config/nodes/{node}": async ({ node }) => {
      await removeNode(node);
      return null;
    },
    "GET /cluster/config/qdevice": () => ({}),
    "GET /cluster/config/totem": () => (clusterName === undefined ? {} : { cluster_name: clusterName }),
    "GET /cluster/config/join": () => {
      throw clusterName === undefined
        ? new AppError("object.not_found", "node is not in a cluster, no join info available!", {
            pveStatus: 424,
          })
        : new AppError(
            "feature.unsupported",
            "nodes join this cluster otherwise: see 'gpvectl node join-command'",
          );
    },
  };
}
