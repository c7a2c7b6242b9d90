// Whether a machine's way out is the one of the file. A card that nobody configured asks a DHCP server and gets a way out
// of its own, and answers then leave by the wrong one.
import { isIPv6 } from "node:net";
import type { Cluster } from "../cluster/cluster.ts";
import { canonicalAddress } from "../cluster/networks.ts";
import type { SeenNetwork, SeenRoute } from "./world.ts";

/** undefined: it is, or nobody told. */
export function routeProblem(
  { gateway }: Pick<Cluster["network"], "gateway">,
  { defaultRoutes }: SeenNetwork,
): string | undefined {
  if (defaultRoutes === undefined) return undefined;
  const routes = defaultRoutes.filter((route) => isIPv6(route.gateway) === isIPv6(gateway));
  const wanted = canonicalAddress(gateway);
  const own = routes.filter((route) => canonicalAddress(route.gateway) === wanted);
  if (own.length === 0) {
    return routes.length === 0
      ? `it has no default route; network.gateway is ${gateway}`
      : `its default route is ${routes.map(text).join(" and ")}; network.gateway is ${gateway}`;
  }
  const best = Math.min(...own.map(({ priority }) => priority));
  const rivals = routes.filter((route) => !own.includes(route) && route.priority <= best);
  return rivals.length === 0
    ? undefined
    : `beside ${gateway} it has the default route ${rivals.map(text).join(" and ")}`;
}

const text = ({ gateway, link, priority }: SeenRoute): string => `${gateway} by ${link} (metric ${priority})`;
