// Software-defined networks while there are none.
import { missing } from "@gpve/domain/request/failures.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";

export function createSdnHandlers(): PveHandlers {
  return {
    "GET /cluster/sdn/controllers": none,
    "GET /cluster/sdn/controllers/{controller}": ({ controller }) => notThere(controller),
    "GET /cluster/sdn/dns": none,
    "GET /cluster/sdn/dns/{dns}": ({ dns }) => notThere(dns),
    "GET /cluster/sdn/fabrics/all": () => ({ fabrics: [], nodes: [] }),
    "GET /cluster/sdn/fabrics/fabric": none,
    "GET /cluster/sdn/fabrics/node": none,
    "GET /cluster/sdn/ipams": none,
    "GET /cluster/sdn/ipams/{ipam}": ({ ipam }) => notThere(ipam),
    "GET /cluster/sdn/prefix-lists": none,
    "GET /cluster/sdn/route-maps": none,
    "GET /cluster/sdn/route-maps/entries": none,
    "GET /cluster/sdn/vnets": none,
    "GET /cluster/sdn/vnets/{vnet}": ({ vnet }) => notThere(vnet),
    "GET /cluster/sdn/vnets/{vnet}/subnets": ({ vnet }) => notThere(vnet),
    "GET /cluster/sdn/vnets/{vnet}/subnets/{subnet}": ({ vnet }) => notThere(vnet),
    "GET /cluster/sdn/zones": none,
    "GET /cluster/sdn/zones/{zone}": ({ zone }) => notThere(zone),
    "GET /nodes/{node}/sdn/zones": none,
  };
}

function none(): readonly never[] {
  return [];
}

function notThere(id: string): never {
  throw missing(`sdn '${id}' does not exist`);
}
