// The network that machines are plugged into: a bridge of the nodes, or a VNet, which is one zone's of all nodes.
import type { Cluster } from "../cluster/cluster.ts";
import type { Driver, Observation, ObservedNode } from "../driver/driver.ts";
import { error, type Finding, warning } from "./finding-report.ts";

export interface CheckedNetwork {
  /** Where the privilege to use it is looked for; null: nobody tells whose it is, and it was shown to whoever may use it. */
  readonly path: string | null;
  /** Of a VNet, as its zone has it: no node tells. */
  readonly mtu?: number | undefined;
  readonly isVnet: boolean;
}

const USUAL_MTU = 1500;

export async function networkOf(
  { network: { bridge } }: Pick<Cluster, "network">,
  { nodes }: Pick<Observation, "nodes">,
  driver: Pick<Driver, "vnet">,
): Promise<CheckedNetwork> {
  const isVnet = nodes.some(({ bridges }) => bridges.some((each) => each.name === bridge && each.isVnet));
  if (!isVnet) return { path: `/sdn/zones/localnetwork/${bridge}`, isVnet };
  const vnet = await driver.vnet(bridge);
  return {
    path: vnet === undefined ? null : `/sdn/zones/${vnet.zone}/${bridge}`,
    mtu: vnet?.mtu,
    isVnet,
  };
}

export function checkBridge(
  { network }: Pick<Cluster, "network">,
  node: ObservedNode,
  checked: CheckedNetwork,
): readonly Finding[] {
  const bridge = node.bridges.find(({ name }) => name === network.bridge);
  const subject = `${network.bridge} on ${node.name}`;
  if (bridge === undefined) {
    const known = node.bridges.map(({ name }) => name).join(", ");
    return [error("bridge-missing", subject, `there: ${known || "none"}`)];
  }
  const mtu = bridge.mtu ?? checked.mtu ?? (checked.isVnet ? undefined : USUAL_MTU);
  if (mtu === undefined) return [];
  if (network.mtu === "auto")
    return mtu < USUAL_MTU
      ? [
          warning(
            "mtu-small",
            subject,
            `its MTU is ${mtu}, and machines with network.mtu auto have ${USUAL_MTU}`,
          ),
        ]
      : [];
  return network.mtu > mtu
    ? [error("mtu-too-large", subject, `network.mtu is ${network.mtu}, the bridge's ${mtu}`)]
    : [];
}
