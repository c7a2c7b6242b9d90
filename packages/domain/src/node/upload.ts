// How a server gives a node the body of an upload: bytes through a tunnel, kept by the node until an operation takes them.

import type { TunnelRoute } from "@gpve/contracts/agent/agent-routes.ts";

export const UPLOAD_TUNNEL = "TUNNEL /gpve/nodes/{node}/storage/{storage}/upload" satisfies TunnelRoute;

/** Where the body of an upload waits for its node. */
export interface UploadPlace {
  /** On the node. */
  readonly path: string;
  write(bytes: Uint8Array): Promise<void>;
  finish(): Promise<void>;
  discard(): Promise<void>;
}

/** Parameters of the tunnel beside its path's: a body of so many bytes at most, or one that nobody takes. */
export type UploadRequest = { readonly length: number } | { readonly discard: string };

/** What the node says when it is ready for the bytes. */
export interface UploadOpened {
  /** On the node; the parameter `tmpfilename` of the call that follows. */
  readonly path: string;
}

/** What the node sends back when it has written the last byte. */
export interface UploadStored {
  readonly bytes: number;
}
