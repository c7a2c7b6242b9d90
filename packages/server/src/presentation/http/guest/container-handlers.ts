// Reads of a single container. There are none yet, so each says so in the words that clients know: providers of
// infrastructure take a container for deleted by them.
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { ReadGuests } from "../../../application/guest/read-guests.ts";

export function createContainerHandlers({ guests }: { readonly guests: ReadGuests }): PveHandlers {
  const missing = ({ node, vmid }: { readonly node: string; readonly vmid: number }): unknown =>
    guests.find(node, "lxc", vmid);
  return {
    "GET /nodes/{node}/lxc/{vmid}/config": missing,
    "GET /nodes/{node}/lxc/{vmid}/feature": missing,
    "GET /nodes/{node}/lxc/{vmid}/interfaces": missing,
    "GET /nodes/{node}/lxc/{vmid}/pending": missing,
    "GET /nodes/{node}/lxc/{vmid}/rrd": missing,
    "GET /nodes/{node}/lxc/{vmid}/rrddata": missing,
    "GET /nodes/{node}/lxc/{vmid}/snapshot": missing,
    "GET /nodes/{node}/lxc/{vmid}/snapshot/{snapname}/config": missing,
    "GET /nodes/{node}/lxc/{vmid}/status/current": missing,
  };
}
