// /cluster/mapping: names for devices and directories that every node has in its own place.
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { Mappings } from "../../../application/mapping/mappings.ts";

export function createMappingHandlers(deps: { readonly mappings: Mappings }): PveHandlers {
  const { mappings } = deps;
  return {
    "GET /cluster/mapping/pci": (params, ctx) => mappings.list("pci", params["check-node"], ctx),
    "POST /cluster/mapping/pci": ({ id, ...options }, ctx) => mappings.create("pci", id, options, ctx),
    "GET /cluster/mapping/pci/{id}": ({ id }) => mappings.get("pci", id),
    "PUT /cluster/mapping/pci/{id}": ({ id, delete: remove, digest, ...set }, ctx) =>
      mappings.update("pci", id, { set, delete: remove, digest }, ctx),
    "DELETE /cluster/mapping/pci/{id}": ({ id }) => mappings.remove("pci", id),

    "GET /cluster/mapping/usb": (params, ctx) => mappings.list("usb", params["check-node"], ctx),
    "POST /cluster/mapping/usb": ({ id, ...options }, ctx) => mappings.create("usb", id, options, ctx),
    "GET /cluster/mapping/usb/{id}": ({ id }) => mappings.get("usb", id),
    "PUT /cluster/mapping/usb/{id}": ({ id, delete: remove, digest, ...set }, ctx) =>
      mappings.update("usb", id, { set, delete: remove, digest }, ctx),
    "DELETE /cluster/mapping/usb/{id}": ({ id }) => mappings.remove("usb", id),

    "GET /cluster/mapping/dir": (params, ctx) => mappings.list("dir", params["check-node"], ctx),
    "POST /cluster/mapping/dir": ({ id, ...options }, ctx) => mappings.create("dir", id, options, ctx),
    "GET /cluster/mapping/dir/{id}": ({ id }) => mappings.get("dir", id),
    "PUT /cluster/mapping/dir/{id}": ({ id, delete: remove, digest, ...set }, ctx) =>
      mappings.update("dir", id, { set, delete: remove, digest }, ctx),
    "DELETE /cluster/mapping/dir/{id}": ({ id }) => mappings.remove("dir", id),
  };
}
