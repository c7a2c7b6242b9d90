// The end of a line at a store or its standby, by its path: this process is not root, sees nothing of the host but the folder of these
// sockets, and has no /proc to hold them by.
import { connect, type Socket } from "node:net";

export function connectEnd(path: string): Socket {
  return connect({ path });
}
