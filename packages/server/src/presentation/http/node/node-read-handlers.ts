// Reads about nodes that a server answers itself, also while the node is away.
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { certificateInfo } from "@gpve/kit/pki/certificate-info.ts";

export interface NodeReadDeps {
  readonly localNode: string;
  readonly board: NodeBoard;
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
        : { filename: NODE_FILE, fingerprint: deps.board.get(node)?.certFingerprint },
    ],
    // Nothing can be set yet, so nothing is.
    "GET /nodes/{node}/config": () => ({}),
  };
}
