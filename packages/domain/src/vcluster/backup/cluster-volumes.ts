// Volumes of a cluster's workers on other nodes, for a backup that one node makes: by a line that is for that backup alone, as a
// server has noted it. The node that makes it asks, the others answer.
import type { GuestMove } from "../../guest/guest-move.ts";

/** An archive of folders of volumes. */
export interface VolumeParcel {
  /** 0 = there are none. */
  readonly size: number;
  readonly body: AsyncIterable<Uint8Array>;
  /** Whoever has read it, or does not want it any more. */
  close(): Promise<void>;
}

/** The node that has them. */
export interface VolumeSource {
  pack(cluster: string, signal: AbortSignal): Promise<VolumeParcel>;
}

/** The node that makes the backup. */
export interface VolumePeers {
  clusterVolumes(move: GuestMove, signal: AbortSignal): Promise<VolumeParcel>;
}
