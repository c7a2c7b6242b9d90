// What the agent of a node may see and change in the cluster's store. Everything that is not named here is not there
// for it. Which guests are a node's own is said by the guest's record and by servers, never by the agent: a record keeps
// its node, and a new one is made only for a VMID that a server told this node to use.
import {
  decodeGuest,
  guestCollection,
  goneGuestCollection,
  type GuestRecord,
} from "@gpve/domain/guest/guest-record.ts";
import { agentCorner } from "@gpve/domain/node/record.ts";
import { permitCollection } from "./guest-permits.ts";

/** What configurations, storages and permissions are judged by. */
const SHARED = [
  "access/",
  "pools/",
  "cluster/",
  "guests/",
  "gone-guests/",
  "storage/",
  "mapping/",
  "cpu-models/",
];

/** In the shape that the store's guard takes. */
export function agentKeyRules(node: string) {
  const own = [`tasks/${node}/`, `node-data/${node}/`];
  const guests = ["guests/", "gone-guests/"];
  const below = (names: readonly string[], folder = ""): string[] =>
    names.map((name) => `/gpve/${folder}${name}`);
  // The records layer marks what it deletes, and which of its writes were done (ADR 6).
  const commits = `/gpve/.commit/${agentCorner(node)}/`;
  return {
    peer: node,
    read: ["/gpve/"],
    only: [...below([...SHARED, ...own]), ...below([...SHARED, ...own], ".deleted/"), commits],
    hidden: [],
    write: [...below([...own, ...guests]), ...below([...own], ".deleted/"), commits],
    marks: below(guests, ".deleted/"),
    owned: {
      prefix: guestCollection.prefix,
      notes: [goneGuestCollection.prefix],
      ownerOf: (value: Uint8Array, id: string): string | undefined => {
        const guest = guestOf(value);
        return guest?.vmid === Number(id) ? guest.node : undefined;
      },
      permits: {
        prefix: permitCollection.prefix,
        allows: (value: Uint8Array, peer: string) => parsed(value)?.["node"] === peer,
      },
    },
    leases: `/gpve/.leases/${node}/`,
  };
}

/** One that nobody can read is nobody's: stored once, it would stand in the way of every list of guests. */
function guestOf(value: Uint8Array): GuestRecord | undefined {
  try {
    return decodeGuest(parsed(value));
  } catch {
    return undefined;
  }
}

function parsed(value: Uint8Array): Readonly<Record<string, unknown>> | undefined {
  try {
    const json: unknown = JSON.parse(Buffer.from(value).toString("utf8"));
    return typeof json === "object" && json !== null ? (json as Record<string, unknown>) : undefined;
  } catch {
    return undefined; // no record of ours: nobody's
  }
}
