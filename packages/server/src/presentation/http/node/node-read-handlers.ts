// What a server answers about nodes itself, also while the node is away.
import { given } from "@gpve/contracts/given.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { splitList } from "@gpve/domain/schema/list.ts";
import { certificateInfo } from "@gpve/kit/pki/certificate-info.ts";

import type { NodeConfig, NodeConfigs } from "../../../application/node/node-configs.ts";

export interface NodeReadDeps {
  readonly configs: Pick<NodeConfigs, "show" | "update" | "wake">;
  readonly localNode: string;
  /** What clients of the API are shown at a node, where it has one. */
  readonly fingerprintOf: (node: string) => string;
  readonly caPem: () => string;
  /** This server's own, the CA's after it. */
  readonly certPem: () => string;
}

/** Clients look for certificates by the names of PVE's files. */
const CA_FILE = "pve-root-ca.pem";
const NODE_FILE = "pve-ssl.pem";

export function createNodeReadHandlers(deps: NodeReadDeps): PveHandlers {
  return {
    // There are no templates of containers to be had yet.
    "GET /nodes/{node}/aplinfo": () => [],
    "GET /nodes/{node}/certificates/info": ({ node }) => [
      certificateInfo(CA_FILE, deps.caPem()),
      node === deps.localNode
        ? certificateInfo(NODE_FILE, deps.certPem())
        : { filename: NODE_FILE, fingerprint: deps.fingerprintOf(node) },
    ],
    "GET /nodes/{node}/config": ({ node, property }) => deps.configs.show(node, property),
    "PUT /nodes/{node}/config": async ({ node, delete: remove, digest, ...set }, ctx) => {
      const change = { set: given(set) as NodeConfig, remove: splitList(remove ?? ""), digest };
      await deps.configs.update(node, change, ctx.signal);
      return null;
    },
    "POST /nodes/{node}/wakeonlan": ({ node }) => deps.configs.wake(node),
  };
}
