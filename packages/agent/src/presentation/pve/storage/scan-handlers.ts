// What a node sees of servers in its network.
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { NetworkScans } from "@gpve/domain/storage/network-scans.ts";

export function createScanHandlers(scans: NetworkScans): PveHandlers {
  return {
    "GET /nodes/{node}/scan/nfs": ({ server }, ctx) => scans.exports(server, ctx.signal),
    "GET /nodes/{node}/scan/cifs": ({ server, username, password = "", domain }, ctx) =>
      scans.shares(server, username === undefined ? undefined : { username, password, domain }, ctx.signal),
  };
}
