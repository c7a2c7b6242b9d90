// What the agent of a node may see and change in the cluster's store. Everything that is not named here is not there
// for it. Which guests are a node's own is said by the guest's record and by servers, never by the agent: a record keeps
// its node, its fence, its origin and the pool it goes to, and a new one is made only as a server told this node to.
import {
  briefGuest,
  decodeGuest,
  encodeGuest,
  guestCollection,
  goneGuestCollection,
  type GuestRecord,
} from "@gpve/domain/guest/guest-record.ts";
import { evidenceCollection, localCollection } from "@gpve/domain/ha/collections.ts";
import { leaseCollection, leaseId } from "@gpve/domain/ha/node-lease.ts";
import { agentCorner } from "@gpve/domain/node/record.ts";
import { decodeTaskRecord, TASK_PREFIX, taskRecordId } from "@gpve/domain/task/task-record.ts";
import { permitCollection, permitId, permits } from "./guest-permits.ts";

/** What configurations, storages and permissions are judged by. */
const SHARED = [
  "access/",
  "pools/",
  "cluster/",
  "guests/",
  "gone-guests/",
  "left-backups/",
  "guest-moves/",
  "vcluster-places/",
  "servers/",
  "storage/",
  "mapping/",
  "cpu-models/",
  "ha/resources/",
  "ha/manager/",
];

/** In the shape that the store's guard takes. */
export function agentKeyRules(node: string, now: () => number) {
  const own = [
    `tasks/${node}/`,
    `node-data/${node}/`,
    `ha/leases/${node}/`,
    `ha/local/${node}/`,
    `ha/evidence/${node}/`,
  ];
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
    // Servers show and follow these: one that they could not read would be in everybody's way.
    values: [
      {
        prefix: leaseCollection.prefix,
        accepts: (value: Uint8Array, id: string) =>
          leaseId(readAs(value, leaseCollection.decode)?.node ?? "") === id,
      },
      {
        prefix: localCollection.prefix,
        accepts: (value: Uint8Array) => readAs(value, localCollection.decode) !== undefined,
      },
      {
        prefix: evidenceCollection.prefix,
        accepts: (value: Uint8Array, id: string) =>
          readAs(value, evidenceCollection.decode)?.by === id.split("/")[0],
      },
      {
        prefix: TASK_PREFIX,
        accepts: (value: Uint8Array, id: string) =>
          taskRecordId(readAs(value, decodeTaskRecord)?.upid ?? "") === id,
      },
      {
        prefix: goneGuestCollection.prefix,
        accepts: (value: Uint8Array, id: string) =>
          String(readAs(value, goneGuestCollection.decode)?.vmid) === id,
      },
    ],
    owned: {
      prefix: guestCollection.prefix,
      notes: [goneGuestCollection.prefix],
      ownerOf: (value: Uint8Array, id: string): string | undefined => {
        const guest = guestOf(value);
        return guest !== undefined && String(guest.vmid) === id ? guest.node : undefined;
      },
      permits: {
        prefix: permitCollection.prefix,
        needed: (id: string, before: Uint8Array | undefined, after: Uint8Array): string | undefined => {
          const madeBy = guestOf(after)?.madeBy ?? "";
          const isKept = before !== undefined && (guestOf(before)?.madeBy ?? "") === madeBy;
          return isKept ? undefined : permitId(id, madeBy);
        },
        allows: (value: Uint8Array, after: Uint8Array): boolean => {
          const [permit, guest] = [readAs(value, permitCollection.decode), guestOf(after)];
          return permit !== undefined && guest !== undefined && permits(permit, guest, now());
        },
      },
      mayBecome: (before: Uint8Array | undefined, after: Uint8Array): boolean => {
        const is = guestOf(after);
        if (before === undefined) return is?.fence === 0;
        const was = guestOf(before);
        const keepsPool = was?.madeBy !== is?.madeBy || was?.wantedPool === is?.wantedPool;
        return keepsPool && was?.fence === is?.fence && was?.type === is?.type;
      },
    },
    // Of others' guests an agent needs to know that they are there, and which tags are in use.
    brief: {
      prefix: guestCollection.prefix,
      of: (value: Uint8Array): Uint8Array => {
        const guest = guestOf(value);
        return guest?.node === node
          ? value
          : Buffer.from(JSON.stringify(guest && encodeGuest(briefGuest(guest))));
      },
    },
    leases: `/gpve/.leases/${node}/`,
    /** What nobody else writes: its share of the store is counted there. */
    own: [...below(own), ...below(own, ".deleted/"), commits],
  };
}

/** One that nobody can read is nobody's. */
function guestOf(value: Uint8Array): GuestRecord | undefined {
  return readAs(value, decodeGuest);
}

function readAs<T>(value: Uint8Array, decode: (json: unknown) => T): T | undefined {
  try {
    return decode(JSON.parse(Buffer.from(value).toString("utf8")));
  } catch {
    return undefined; // no record of ours
  }
}
