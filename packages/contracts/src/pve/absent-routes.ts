// Reads of what no gpve has yet. They are answered, since clients ask before they know: lists are empty, options are
// PVE's defaults, single objects do not exist. Whoever builds one of these features moves its lines to routes.ts.
import type { RouteDecl } from "./route-decl.ts";

const read: RouteDecl = { audit: "none", runs: "server" };

/** The firewalls of a VM and of a container have the same methods. */
const guestFirewall = <const T extends "qemu" | "lxc">(type: T) =>
  ({
    [`GET /nodes/{node}/${type}/{vmid}/firewall/aliases`]: read,
    [`GET /nodes/{node}/${type}/{vmid}/firewall/aliases/{name}`]: read,
    [`GET /nodes/{node}/${type}/{vmid}/firewall/ipset`]: read,
    [`GET /nodes/{node}/${type}/{vmid}/firewall/ipset/{name}`]: read,
    [`GET /nodes/{node}/${type}/{vmid}/firewall/ipset/{name}/{cidr}`]: read,
    [`GET /nodes/{node}/${type}/{vmid}/firewall/log`]: read,
    [`GET /nodes/{node}/${type}/{vmid}/firewall/options`]: read,
    [`GET /nodes/{node}/${type}/{vmid}/firewall/refs`]: read,
    [`GET /nodes/{node}/${type}/{vmid}/firewall/rules`]: read,
    [`GET /nodes/{node}/${type}/{vmid}/firewall/rules/{pos}`]: read,
  }) as Readonly<Record<GuestFirewallRead<T>, RouteDecl>>;

type GuestFirewallRead<T extends string> = `GET /nodes/{node}/${T}/{vmid}/firewall/${
  | "aliases"
  | "aliases/{name}"
  | "ipset"
  | "ipset/{name}"
  | "ipset/{name}/{cidr}"
  | "log"
  | "options"
  | "refs"
  | "rules"
  | "rules/{pos}"}`;

export const absentRoutes = {
  ...guestFirewall("qemu"),
  ...guestFirewall("lxc"),
  "GET /nodes/{node}/firewall/log": read,
  "GET /nodes/{node}/firewall/options": read,
  "GET /nodes/{node}/firewall/rules": read,
  "GET /nodes/{node}/firewall/rules/{pos}": read,
  "GET /cluster/firewall/aliases": read,
  "GET /cluster/firewall/aliases/{name}": read,
  "GET /cluster/firewall/groups": read,
  "GET /cluster/firewall/groups/{group}": read,
  "GET /cluster/firewall/groups/{group}/{pos}": read,
  "GET /cluster/firewall/ipset": read,
  "GET /cluster/firewall/ipset/{name}": read,
  "GET /cluster/firewall/ipset/{name}/{cidr}": read,
  "GET /cluster/firewall/options": read,
  "GET /cluster/firewall/refs": read,
  "GET /cluster/firewall/rules": read,
  "GET /cluster/firewall/rules/{pos}": read,

  "GET /cluster/sdn/controllers": read,
  "GET /cluster/sdn/controllers/{controller}": read,
  "GET /cluster/sdn/dns": read,
  "GET /cluster/sdn/dns/{dns}": read,
  "GET /cluster/sdn/fabrics/all": read,
  "GET /cluster/sdn/fabrics/fabric": read,
  "GET /cluster/sdn/fabrics/node": read,
  "GET /cluster/sdn/ipams": read,
  "GET /cluster/sdn/ipams/{ipam}": read,
  "GET /cluster/sdn/prefix-lists": read,
  "GET /cluster/sdn/route-maps": read,
  "GET /cluster/sdn/route-maps/entries": read,
  "GET /cluster/sdn/vnets": read,
  "GET /cluster/sdn/vnets/{vnet}": read,
  "GET /cluster/sdn/vnets/{vnet}/subnets": read,
  "GET /cluster/sdn/vnets/{vnet}/subnets/{subnet}": read,
  "GET /cluster/sdn/zones": read,
  "GET /cluster/sdn/zones/{zone}": read,
  "GET /nodes/{node}/sdn/zones": read,

  "GET /nodes/{node}/lxc/{vmid}/config": read,
  "GET /nodes/{node}/lxc/{vmid}/feature": read,
  "GET /nodes/{node}/lxc/{vmid}/interfaces": read,
  "GET /nodes/{node}/lxc/{vmid}/pending": read,
  "GET /nodes/{node}/lxc/{vmid}/rrd": read,
  "GET /nodes/{node}/lxc/{vmid}/rrddata": read,
  "GET /nodes/{node}/lxc/{vmid}/snapshot": read,
  "GET /nodes/{node}/lxc/{vmid}/snapshot/{snapname}/config": read,
  "GET /nodes/{node}/lxc/{vmid}/status/current": read,

  "GET /cluster/acme/account": read,
  "GET /cluster/acme/plugins": read,
  "GET /cluster/jobs/realm-sync": read,
  "GET /cluster/jobs/realm-sync/{id}": read,
  "GET /cluster/metrics/server": read,
  "GET /cluster/metrics/server/{id}": read,
  "GET /cluster/notifications/endpoints/gotify": read,
  "GET /cluster/notifications/endpoints/sendmail": read,
  "GET /cluster/notifications/endpoints/smtp": read,
  "GET /cluster/notifications/endpoints/webhook": read,
  "GET /cluster/notifications/matchers": read,
  "GET /cluster/notifications/targets": read,
} as const satisfies Record<string, RouteDecl>;
