// The firewall as it is while nobody can configure one: no rules, aliases, sets or groups, every option at its default.
// As in PVE a guest need not exist: its firewall is a file of its own, and a file that is not there is an empty one.
import { missing, parameterError } from "@gpve/domain/request/failures.ts";
import { createHash } from "node:crypto";
import { PveReply, type PveHandlers } from "@gpve/domain/request/handler.ts";

/** Options that are not set are left out; the digest is that of none. */
const DEFAULTS = { digest: createHash("sha1").update("").digest("hex") };

export function createFirewallHandlers(): PveHandlers {
  return {
    "GET /cluster/firewall/aliases": none,
    "GET /cluster/firewall/aliases/{name}": noAlias,
    "GET /cluster/firewall/groups": none,
    "GET /cluster/firewall/groups/{group}": noGroup,
    "GET /cluster/firewall/groups/{group}/{pos}": noGroup,
    "GET /cluster/firewall/ipset": none,
    "GET /cluster/firewall/ipset/{name}": noSet,
    "GET /cluster/firewall/ipset/{name}/{cidr}": noSet,
    "GET /cluster/firewall/options": () => DEFAULTS,
    "GET /cluster/firewall/refs": none,
    "GET /cluster/firewall/rules": none,
    "GET /cluster/firewall/rules/{pos}": noRule,

    "GET /nodes/{node}/firewall/log": emptyLog,
    "GET /nodes/{node}/firewall/options": () => DEFAULTS,
    "GET /nodes/{node}/firewall/rules": none,
    "GET /nodes/{node}/firewall/rules/{pos}": noRule,

    "GET /nodes/{node}/qemu/{vmid}/firewall/aliases": none,
    "GET /nodes/{node}/qemu/{vmid}/firewall/aliases/{name}": noAlias,
    "GET /nodes/{node}/qemu/{vmid}/firewall/ipset": none,
    "GET /nodes/{node}/qemu/{vmid}/firewall/ipset/{name}": noSet,
    "GET /nodes/{node}/qemu/{vmid}/firewall/ipset/{name}/{cidr}": noSet,
    "GET /nodes/{node}/qemu/{vmid}/firewall/log": emptyLog,
    "GET /nodes/{node}/qemu/{vmid}/firewall/options": () => DEFAULTS,
    "GET /nodes/{node}/qemu/{vmid}/firewall/refs": none,
    "GET /nodes/{node}/qemu/{vmid}/firewall/rules": none,
    "GET /nodes/{node}/qemu/{vmid}/firewall/rules/{pos}": noRule,

    "GET /nodes/{node}/lxc/{vmid}/firewall/aliases": none,
    "GET /nodes/{node}/lxc/{vmid}/firewall/aliases/{name}": noAlias,
    "GET /nodes/{node}/lxc/{vmid}/firewall/ipset": none,
    "GET /nodes/{node}/lxc/{vmid}/firewall/ipset/{name}": noSet,
    "GET /nodes/{node}/lxc/{vmid}/firewall/ipset/{name}/{cidr}": noSet,
    "GET /nodes/{node}/lxc/{vmid}/firewall/log": emptyLog,
    "GET /nodes/{node}/lxc/{vmid}/firewall/options": () => DEFAULTS,
    "GET /nodes/{node}/lxc/{vmid}/firewall/refs": none,
    "GET /nodes/{node}/lxc/{vmid}/firewall/rules": none,
    "GET /nodes/{node}/lxc/{vmid}/firewall/rules/{pos}": noRule,
  };
}

function none(): readonly never[] {
  return [];
}

/** PVE's log viewer never gets an empty list. */
function emptyLog(): PveReply {
  return new PveReply({ data: [{ n: 1, t: "no content" }], total: 1 });
}

function noRule({ pos }: { readonly pos?: number }): never {
  throw missing(`no rule at position ${pos}`);
}

function noGroup({ group }: { readonly group: string }): never {
  throw missing(`no such security group '${group}'`);
}

function noSet({ name }: { readonly name: string }): never {
  throw missing(`no such IPSet '${name}'`);
}

function noAlias(): never {
  throw parameterError({ name: "no such alias" });
}
