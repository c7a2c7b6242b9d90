// Bridges of virtual clusters, by their names: nobody but the cluster is on them, so they are in no list and take no cards.

export function clusterBridge(index: number): string {
  return `vcb${index}`;
}

/** Of the network behind a bridge; undefined = it is none of a cluster's. */
export function clusterSubnet(bridge: string): string | undefined {
  const index = Number(/^vcb(\d+)$/.exec(bridge)?.[1]);
  return Number.isNaN(index) ? undefined : `100.${80 + Math.floor(index / 256)}.${index % 256}.0/24`;
}

export function isClusterBridge(name: string): boolean {
  return /^vcb\d+$/.test(name);
}

export function clusterBridgeRefusal(name: string): string {
  return `'${name}' is the bridge of a virtual cluster, which nobody else can be on: name another bridge`;
}
