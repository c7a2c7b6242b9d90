// The PVE methods a server answers itself.
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { Access } from "./application/access/access.ts";
import { managerCollection, resourceCollection } from "@gpve/domain/ha/collections.ts";
import { CpuModels } from "./application/cluster/cpu-models.ts";
import { DatacenterOptionsStore } from "./application/cluster/datacenter-options.ts";
import { ListResources, poolMembership } from "./application/cluster/list-resources.ts";
import { nextFreeId } from "./application/cluster/next-id.ts";
import type { FreshReads } from "./application/fresh-reads.ts";
import type { MemoryNodeBoard } from "./application/node/board.ts";
import { nodeRecords } from "./application/node/collections.ts";
import { NodeConfigs } from "./application/node/node-configs.ts";
import type { Membership } from "./application/node/membership.ts";
import type { QuotaLedger } from "./application/quota/quota-ledger.ts";
import { Pools } from "./application/pool/pools.ts";
import type { StorageDefinitions } from "./application/storage/storage-definitions.ts";
import { taskRecords } from "@gpve/domain/task/task-record.ts";
import { RecentTasks } from "./application/task/recent-tasks.ts";
import { eventCollection } from "./application/v1/events.ts";
import type { GuestReads } from "./compose-guest-reads.ts";
import { sendWakePacket } from "./infrastructure/wake-on-lan/udp-wake.ts";
import { createAccessHandlers } from "./presentation/http/access/access-handlers.ts";
import { createClusterHandlers } from "./presentation/http/cluster/cluster-handlers.ts";
import { createConfigHandlers } from "./presentation/http/cluster/config-handlers.ts";
import { createCpuHandlers } from "./presentation/http/cluster/cpu-handlers.ts";
import { createNotYetHandlers } from "./presentation/http/cluster/not-yet-handlers.ts";
import { createFirewallHandlers } from "./presentation/http/firewall/firewall-handlers.ts";
import { createContainerHandlers } from "./presentation/http/guest/container-handlers.ts";
import { createGuestReadHandlers } from "./presentation/http/guest/guest-read-handlers.ts";
import { createSdnHandlers } from "./presentation/http/network/sdn-handlers.ts";
import { createNodeReadHandlers } from "./presentation/http/node/node-read-handlers.ts";
import { createPoolHandlers } from "./presentation/http/pools/pool-handlers.ts";
import type { NodeCalls } from "./application/node/call-agent.ts";
import { storageChecks } from "./application/storage/storage-work.ts";
import { createStorageHandlers } from "./presentation/http/storage/storage-handlers.ts";
import { createClusterTaskHandlers } from "./presentation/http/task/cluster-task-handlers.ts";

export interface PveHandlerParts extends GuestReads {
  readonly records: Records;
  readonly access: Access;
  readonly board: MemoryNodeBoard;
  readonly storages: StorageDefinitions;
  readonly reads: FreshReads;
  readonly nodeName: string;
  readonly clusterName: string | undefined;
  readonly calls: NodeCalls;
  readonly membership: Membership;
  readonly quotas: Pick<QuotaLedger, "requireRoomIn">;
  readonly caPem: () => string;
  /** What clients of this server are shown. */
  readonly shown: () => { readonly certPem: string; readonly fingerprint: string };
}

export function composePveHandlers(parts: PveHandlerParts): PveHandlers {
  const { records, access, board, storages, reads, nodeName } = parts;
  const guests = records.collection(guestCollection);
  const recentTasks = new RecentTasks(records.collection(taskRecords));
  const options = new DatacenterOptionsStore(records);
  const resources = new ListResources({
    guests,
    board,
    pools: () => poolMembership(access.directory.model()),
    storages: () => storages.listing(),
    vclusters: records.collection(vclusterCollection),
    ha: {
      resources: records.collection(resourceCollection),
      manager: records.collection(managerCollection),
    },
  });
  const { readGuests, movable } = parts;
  // On a node without a server of its own clients find none: through this one they reach it.
  const fingerprintOf = (node: string): string =>
    (node === nodeName ? undefined : parts.membership.servers.fingerprintOf(node)) ??
    parts.shown().fingerprint;
  const pools = new Pools({
    requireRoom: (tx, moves) => parts.quotas.requireRoomIn(tx, moves),
    records,
    directory: access.directory,
    resourceRow: (kind, id) => (kind === "vm" ? resources.guest(Number(id)) : resources.storage(id)[0]),
  });
  return {
    ...createAccessHandlers(access),
    ...createPoolHandlers({ pools }),
    ...createStorageHandlers({
      storages,
      ...storageChecks({ calls: parts.calls, board, localNode: nodeName }),
    }),
    ...createGuestReadHandlers({ guests: readGuests, movable, calls: parts.calls }),
    ...createContainerHandlers({ guests: readGuests }),
    ...createFirewallHandlers(),
    ...createSdnHandlers(),
    ...createCpuHandlers({ models: new CpuModels(records), board }),
    ...createConfigHandlers({
      board,
      fingerprintOf,
      clusterName: parts.clusterName,
      localNode: nodeName,
      removeNode: (node) => parts.membership.remove(node),
    }),
    ...createNodeReadHandlers({
      configs: new NodeConfigs({ records, localNode: nodeName, send: sendWakePacket }),
      localNode: nodeName,
      fingerprintOf,
      caPem: parts.caPem,
      certPem: () => parts.shown().certPem,
    }),
    ...createClusterTaskHandlers({ tasks: recentTasks }),
    ...createNotYetHandlers(),
    ...createClusterHandlers({
      options,
      nextId: (wanted) => nextFreeId(guests, options.nextIdRange(), wanted),
      board,
      fingerprintOf,
      resources,
      guests: () => guests.list().map(({ value }) => value),
      identity: {
        name: parts.clusterName,
        localNode: nodeName,
        quorate: reads.answers,
        version: () => records.collection(nodeRecords).list().length,
      },
      log: {
        events: () => records.collection(eventCollection).list(),
        tasks: () => recentTasks.list(),
        localNode: nodeName,
      },
    }),
  };
}
