// What a machine says of its own place in the network: its name, and where what it does not know goes.
import { given } from "@gpve/contracts/given.ts";
import { isObject } from "@gpve/client/response-error.ts";
import type { TalosMachine } from "../../client/talos-client.ts";
import { asked } from "../asked.ts";
import type { SeenNetwork, SeenRoute } from "../world.ts";

const NAMESPACE = "network";

export async function lookAtNetwork(
  client: Pick<TalosMachine, "resource" | "resources">,
): Promise<SeenNetwork> {
  const [named, routes] = await Promise.all([
    asked(() => client.resource(NAMESPACE, "HostnameStatuses.net.talos.dev", "hostname")),
    asked(() => client.resources(NAMESPACE, "RouteStatuses.net.talos.dev")),
  ]);
  const hostname = isObject(named) && typeof named["hostname"] === "string" ? named["hostname"] : "";
  return given({
    announced: hostname === "" ? undefined : hostname,
    // Every machine has some: one that tells none does not tell.
    defaultRoutes:
      routes === undefined || routes.size === 0 ? undefined : [...routes.values()].flatMap(defaultRoute),
  });
}

/** Routes of pods and of KubeSpan have tables of their own. */
function defaultRoute(route: unknown): readonly SeenRoute[] {
  if (!isObject(route) || !["", "0.0.0.0/0", "::/0"].includes(textOf(route["dst"]))) return [];
  if (textOf(route["table"]) !== "main" || textOf(route["gateway"]) === "") return [];
  return [
    {
      gateway: textOf(route["gateway"]),
      link: textOf(route["outLinkName"]),
      priority: Number(route["priority"] ?? 0),
    },
  ];
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");
