// Software-defined networks while there are none.
import { AppError } from "@gpve/contracts/errors.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";

export function createSdnHandlers(): PveHandlers {
  return {
    "GET /cluster/sdn/controllers": none,
    "GET /cluster/sdn/controllers/{controller}": ({ controller }) => missing(controller),
    "GET /cluster/sdn/dns": none,
    "GET /cluster/sdn/dns/{dns}": ({ dns }) => missing(dns),
    "GET /cluster/sdn/fabrics/all": () => ({ fabrics: [], nodes: [] }),
    "GET /cluster/sdn/fabrics/fabric": none,
    "GET /cluster/sdn/fabrics/node": none,
    "GET /cluster/sdn/ipams": none,
    "GET /cluster/sdn/ipams/{ipam}": ({ ipam }) => missing(ipam),
    "GET /cluster/sdn/prefix-lists": none,
    "GET /cluster/sdn/route-maps": none,
    "GET /cluster/sdn/route-maps/entries": none,
    "GET /cluster/sdn/vnets": none,
    "GET /cluster/sdn/vnets/{vnet}": ({ vnet }) => missing(vnet),
    "GET /cluster/sdn/vnets/{vnet}/subnets": ({ vnet }) => missing(vnet),
    "GET /cluster/sdn/vnets/{vnet}/subnets/{subnet}": ({ vnet }) => missing(vnet),
    "GET /cluster/sdn/zones": none,
    "GET /cluster/sdn/zones/{zone}": ({ zone }) => missing(zone),
    "GET /nodes/{node}/sdn/zones": none,
  };
}

function none(): readonly never[] {
  return [];
}

function missing(id: string): never {
  throw new AppError("object.not_found", `sdn '${id}' does not exist`, { pveStatus: 500 });
}
