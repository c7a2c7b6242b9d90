// Takes a node out of the cluster. From then on its certificate opens nothing, at any server: whoever calls is looked
// up among the nodes, and servers hang up on a node as soon as its record is gone.
import { conditionTimesCollection, nodeConditionsId } from "@gpve/domain/condition/condition-times.ts";
import { leftBackupCollection } from "@gpve/domain/backup/left-backups.ts";
import { guestLabel } from "@gpve/domain/guest/guest-words.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { guestCollection, type GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import { listText } from "@gpve/domain/scheduler/words.ts";
import { nodesOf, vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Tx } from "@gpve/store/records/port.ts";
import { joinTokens, nodeRecords } from "./collections.ts";
import { nodeConfigCollection } from "./node-configs.ts";

export interface RemoveNodeCommand {
  readonly node: string;
  /** Also with guests. Their configurations stay, for a node of that name that joins later. */
  readonly force: boolean;
  /** The node that is a part of this very process, if there is one. */
  readonly ownNode: string | undefined;
}

/** Names in a refusal; more than this nobody reads. */
const MAX_NAMED = 10;

export function removeNode(tx: Tx, { node, force, ownNode }: RemoveNodeCommand): void {
  // Also one that nobody can read: that it is to go is reason enough.
  if (!tx.has(nodeRecords, node)) {
    throw new AppError("object.not_found", `no such node '${node}'`);
  }
  if (node === ownNode) {
    throw new AppError(
      "request.invalid",
      `cannot remove node '${node}': it is a part of the server that was asked`,
    );
  }
  const guests = tx
    .list(guestCollection)
    .map(({ value }) => value)
    .filter((guest) => guest.node === node)
    .toSorted((a, b) => a.vmid - b.vmid);
  if (guests.length > 0 && !force) {
    throw new AppError(
      "resource.busy",
      `node '${node}' still has ${guests.length === 1 ? "a guest" : `${guests.length} guests`}: ${named(guests)}; ` +
        "delete them or let another node take them, or force the removal, which leaves them running there unmanaged",
      { data: { node, guests: guests.map(({ vmid }) => vmid) } },
    );
  }
  const clusters = tx
    .list(vclusterCollection)
    .map(({ value }) => value)
    .filter((cluster) => nodesOf(cluster).includes(node))
    .map(({ tenant, name }) => `${tenant}/${name}`)
    .toSorted();
  if (clusters.length > 0 && !force)
    throw new AppError(
      "resource.busy",
      `node '${node}' still has ${clusters.length === 1 ? "a part of a virtual cluster" : `parts of ${clusters.length} virtual clusters`}: ${listText(clusters, MAX_NAMED)}; ` +
        `delete them or let another node take them (gpvectl node drain ${node}), or force the removal, after which nobody reaches them there`,
      { data: { node, vclusters: clusters } },
    );
  // A used token lets its owner repeat the join; so does one that was made for this node.
  for (const { id, value } of tx.list(joinTokens)) {
    if (value.usedBy?.node === node || value.node === node) tx.delete(joinTokens, id);
  }
  // Nobody sees them any more.
  for (const { id, value } of tx.list(leftBackupCollection))
    if (value.node === node) tx.delete(leftBackupCollection, id);
  // The next one of its name begins anew.
  tx.delete(conditionTimesCollection, nodeConditionsId(node));
  tx.delete(nodeConfigCollection, node);
  tx.delete(nodeRecords, node);
}

function named(guests: readonly GuestRecord[]): string {
  const names = guests.slice(0, MAX_NAMED).map((guest) => `${guestLabel(guest)} (${guest.summary.name})`);
  return [...names, ...(guests.length > MAX_NAMED ? ["…"] : [])].join(", ");
}
