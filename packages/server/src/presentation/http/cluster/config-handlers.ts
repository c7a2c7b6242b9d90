// What PVE keeps in corosync's configuration. There is no corosync here; who is in the cluster is known all the same.
import { missing } from "@gpve/domain/request/failures.ts";
import { createHash } from "node:crypto";
import { AppError } from "@gpve/contracts/errors.ts";
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";

export interface ConfigHandlerDeps {
  readonly board: NodeBoard;
  /** What clients of the API are shown at a node, where it has one. */
  readonly fingerprintOf: (node: string) => string;
  /** undefined: one node, no cluster. */
  readonly clusterName: string | undefined;
  /** The node this server runs on. */
  readonly localNode: string;
  readonly removeNode: (node: string) => Promise<void>;
}

/** Of PVE's calls for joining, as its nodes compare it. */
const JOIN_API_VERSION = 1;

export function createConfigHandlers(deps: ConfigHandlerDeps): PveHandlers {
  const { board, fingerprintOf, clusterName, localNode, removeNode } = deps;
  const totem = (name: string): Record<string, unknown> => ({
    cluster_name: name,
    config_version: String(board.list().length),
    version: "2",
  });
  return {
    "GET /cluster/config/apiversion": () => JOIN_API_VERSION,
    "GET /cluster/config/nodes": () =>
      clusterName === undefined
        ? []
        : board.list().map(({ node, nodeid, address }) => ({
            node,
            name: node,
            nodeid: String(nodeid),
            quorum_votes: "1",
            ring0_addr: address,
          })),
    "DELETE /cluster/config/nodes/{node}": async ({ node }) => {
      await removeNode(node);
      return null;
    },
    "GET /cluster/config/qdevice": () => ({}),
    "GET /cluster/config/totem": () => (clusterName === undefined ? {} : totem(clusterName)),
    // What a machine must know of the cluster; it joins with the token of `gpvectl node join-command`.
    "GET /cluster/config/join": ({ node: wanted }) => {
      if (clusterName === undefined)
        throw new AppError("object.not_found", "node is not in a cluster, no join info available!", {
          pveStatus: 424,
        });
      const nodelist = board.list().map((view) => joinRow(view, fingerprintOf(view.node)));
      const preferred = wanted ?? localNode;
      if (wanted !== undefined && !nodelist.some(({ name }) => name === wanted))
        throw missing(`node '${wanted}' does not exist in cluster`);
      return {
        config_digest: createHash("sha1")
          .update(JSON.stringify([clusterName, nodelist]))
          .digest("hex"),
        nodelist,
        preferred_node: preferred,
        totem: totem(clusterName),
      };
    },
  };
}

function joinRow({ node, nodeid, address }: NodeView, fingerprint: string) {
  return {
    name: node,
    nodeid: String(nodeid),
    pve_addr: address,
    pve_fp: fingerprint,
    quorum_votes: "1",
    ring0_addr: address,
  };
}
