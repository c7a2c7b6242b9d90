// Where each cluster's API is, as servers write it down for all nodes: a node that is asked for a cluster that another one has
// passes the connection on. Only servers write it, from the cluster's record and the node's: nobody is led to an address
// that some node claims.
import { given } from "@gpve/contracts/given.ts";
import { unknownShape } from "../record/collection.ts";

export interface ClusterPlace {
  /** By which clients ask for it. */
  readonly serverName: string;
  readonly node: string;
  /** By which the other nodes reach that one. */
  readonly address: string;
}

/** A cluster that has left this node: who knows it by this node's address comes to the port that it had here. */
export interface FormerPlace {
  readonly serverName: string;
  /** Of its network here, by which it has its port; no other cluster gets it meanwhile. */
  readonly network: number;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

export interface FormerPlaces {
  list(): readonly FormerPlace[];
  note(place: FormerPlace): void;
  forget(serverName: string): void;
}

/** A way to a cluster that another node has: to the port there that all of its clusters share, told by name whom to ask. */
export interface ElsewhereRoute {
  readonly serverName: string;
  /** That is the cluster's here; absent: it is asked for by its name. */
  readonly port?: number;
  readonly target: { readonly host: string; readonly port: number };
}

/** A place is written down a moment after a cluster is made or has moved: only what is missing for longer is gone. */
const GONE_MS = 600_000;

export const placeCollection = {
  prefix: "/gpve/vcluster-places/",
  decode: (json: unknown): ClusterPlace => {
    const { serverName, node, address } = (json ?? {}) as Partial<ClusterPlace>;
    if (typeof serverName !== "string" || typeof node !== "string" || typeof address !== "string")
      throw unknownShape("a place of a virtual cluster in the store");
    return { serverName, node, address };
  },
};

export interface ElsewhereAsk {
  /** This one. */
  readonly node: string;
  readonly places: readonly ClusterPlace[];
  /** Names and ports of the clusters whose control plane is here. */
  readonly own: readonly { readonly serverName: string; readonly port: number }[];
  /** Ports here of clusters that are elsewhere, by their names. */
  readonly doors: ReadonlyMap<string, number>;
  /** Of all clusters of a node, by name. */
  readonly sharedPort: number;
}

/** Of all that are elsewhere, as soon as this node has a cluster itself or had one of them; else nobody comes to it. */
export function elsewhereRoutes(ask: ElsewhereAsk): readonly ElsewhereRoute[] {
  const { node, places, own, doors, sharedPort } = ask;
  const [names, ports] = [
    new Set(own.map(({ serverName }) => serverName)),
    new Set(own.map(({ port }) => port)),
  ];
  const others = places.filter((place) => place.node !== node && !names.has(place.serverName));
  if (own.length === 0 && !others.some(({ serverName }) => doors.has(serverName))) return [];
  return others.map(({ serverName, address }) => {
    const door = doors.get(serverName);
    const port = door !== undefined && ports.has(door) ? undefined : door;
    return { serverName, target: { host: address, port: sharedPort }, ...given({ port }) };
  });
}

/** Of clusters that are no more. */
export function forgottenPlaces(
  former: readonly FormerPlace[],
  places: readonly ClusterPlace[],
  now: number,
): readonly FormerPlace[] {
  const known = new Set(places.map(({ serverName }) => serverName));
  return former.filter(({ serverName, at }) => !known.has(serverName) && now - at > GONE_MS);
}
