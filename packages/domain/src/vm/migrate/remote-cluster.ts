// Another cluster, as a VM that leaves this one needs it: PVE's own methods and nothing else.
import type { RemoteEndpoint } from "./remote-move.ts";

export interface RemoteCluster {
  /** The answer's data. Throws what the other side said. */
  call(method: string, path: string, params?: Readonly<Record<string, string>>): Promise<unknown>;
  /** Puts a file into a storage of the node that answers; resolves to the task there. */
  upload(
    storage: string,
    file: { readonly name: string; readonly size: number; readonly body: AsyncIterable<Uint8Array> },
    work: { readonly progress: (fraction: number) => void; readonly bytesPerSecond?: number | undefined },
  ): Promise<string>;
}

export type ReachCluster = (endpoint: RemoteEndpoint, signal: AbortSignal) => RemoteCluster;
