// Wires servers and agents: what agents reach of a server, and how a server reaches them.
import type { Clock } from "@gpve/kit/clock.ts";
import type { AgentConnection } from "@gpve/domain/node/agent-port.ts";
import type { RequestLogger } from "@gpve/domain/request/context.ts";
import type { Store } from "@gpve/store/port.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { GuardedStores } from "@gpve/store/guard/guarded-stores.ts";
import { memberOf } from "@gpve/store/etcd-server/member.ts";
import { storeRoutes } from "@gpve/store/etcd-server/routes.ts";
import { agentKeyRules } from "./application/node/agent-key-rules.ts";
import type { MovableGuests } from "./application/guest/movable-guests.ts";
import type { MemoryNodeBoard } from "./application/node/board.ts";
import { nodeRecords } from "./application/node/collections.ts";
import { NodeDirectory } from "./application/node/directory.ts";
import { GuestMoves, withGuestMoves } from "./application/node/guest-moves.ts";
import { withGuestPermits } from "./application/node/guest-permits.ts";
import type { Membership } from "./application/node/membership.ts";
import { GrpcAgent } from "./infrastructure/agent-client/grpc-agent.ts";
import { LocalAgent } from "./infrastructure/agent-client/local-agent.ts";
import type { ClusterPki } from "./infrastructure/pki/cluster-pki.ts";
import type { StorageSecrets } from "./application/storage/storage-secrets.ts";
import { createServerGrpcHandler } from "./presentation/grpc/handler.ts";
import { hangUpOnRemoved } from "./application/node/hang-up.ts";
import type { ForServers } from "./presentation/grpc/server-service.ts";
import { peerReader } from "./presentation/grpc/peer.ts";
import type { Listener, ListenerOptions } from "./presentation/listener/listener.ts";

export interface AgentFaceParts {
  readonly membership: Membership;
  readonly board: MemoryNodeBoard;
  readonly storageSecrets: StorageSecrets;
  readonly pki: ClusterPki;
  readonly store: Store;
  readonly records: Records;
  readonly clock: Clock;
  readonly log: RequestLogger;
  readonly serverVersion: string;
  readonly clusterName: string;
  readonly forServers: (() => Promise<ForServers>) | undefined;
  readonly heartbeatIntervalMs?: number;
  readonly reportIntervalMs?: number;
}

export interface AgentFace {
  readonly options: Pick<ListenerOptions, "agentCa" | "isAgent" | "onAgentRequest">;
  /** Hangs up on nodes that are removed, until the returned function is called. */
  watch(listener: Pick<Listener, "dropStrangers">): () => void;
}

export function composeAgentFace(parts: AgentFaceParts): AgentFace {
  const { membership, pki, store, clock } = parts;
  const readPeer = peerReader({ agentCaPems: () => pki.agentCaPems(), now: () => clock.now() });
  const stores = new GuardedStores({
    store,
    clock,
    rulesOf: (node) => agentKeyRules(node, () => clock.now()),
  });
  return {
    options: {
      agentCa: pki.agentCaPems().join("\n"),
      isAgent: (socket) => membership.isMember(readPeer(socket)),
      onAgentRequest: createServerGrpcHandler({
        ...parts,
        moves: new GuestMoves(parts),
        readPeer,
        storeRoutes: (router, nodeOf) =>
          storeRoutes(router, {
            storeOf: (context) => stores.of(nodeOf(context)),
            member: memberOf(parts.clusterName, []),
            clock,
            // As our client does it, so that what bounds streams bounds watches.
            maxWatches: 1,
          }),
      }),
    },
    watch: (listener) => hangUpOnRemoved(parts.records.collection(nodeRecords), listener, clock),
  };
}

/** The way to every node's agent; `local` is the one inside this process. */
export function composeDirectory(
  parts: Pick<AgentFaceParts, "records" | "pki" | "membership" | "clock" | "board"> & {
    readonly movable: Pick<MovableGuests, "require">;
  },
  local: AgentConnection | undefined,
): NodeDirectory {
  const { records, pki, membership, clock, movable, board } = parts;
  const moves = new GuestMoves({ records, clock });
  return new NodeDirectory({
    nodes: records.collection(nodeRecords),
    ...(local === undefined ? {} : { local: new LocalAgent(local) }),
    connect: ({ name, address, port }) => {
      const agent = new GrpcAgent({
        node: name,
        address,
        port,
        tls: pki.towardsAgents(),
        isCurrent: (fingerprint) => membership.isMember({ node: name, fingerprint }),
        isAwaited: () => board.isAwaited(name),
        clock,
      });
      return withGuestMoves(
        withGuestPermits(agent, { records, clock }),
        moves,
        movable.require.bind(movable),
      );
    },
  });
}
