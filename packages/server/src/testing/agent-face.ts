// What agents reach of a server, on its real listener, over a real SQLite store: for tests that come as agents do.
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { IdentityStore, type AgentIdentity } from "@gpve/agent/infrastructure/server-link/identity.ts";
import type { RequestLogger } from "@gpve/domain/request/context.ts";
import { systemClock, type Clock } from "@gpve/kit/clock.ts";
import { createChannel, type Channel } from "@gpve/kit/grpc/channel.ts";
import { openStore } from "@gpve/store/open-store.ts";
import type { Store } from "@gpve/store/port.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { MemoryNodeBoard } from "../application/node/board.ts";
import { nodeRecords } from "../application/node/collections.ts";
import { Membership } from "../application/node/membership.ts";
import { StorageSecrets } from "../application/storage/storage-secrets.ts";
import { composeAgentFace } from "../compose-agent-face.ts";
import { ClusterPki } from "../infrastructure/pki/cluster-pki.ts";
import { createSealer } from "../infrastructure/secrets/sealer.ts";
import { listen } from "../presentation/listener/listener.ts";

export const quietLog: RequestLogger = { debug() {}, info() {}, warn() {}, error() {} };

export interface AgentFaceOptions {
  readonly dir: string;
  /** Servers of one cluster share store and master key. */
  readonly store: Store;
  readonly masterKey: Uint8Array;
  readonly clock?: Clock;
}

export interface AgentFace {
  readonly endpoint: string;
  readonly records: Records;
  readonly pki: ClusterPki;
  readonly membership: Membership;
  readonly board: MemoryNodeBoard;
  /** Joins with an invitation made for it; `folder` is where the node keeps its identity. */
  joinAs(node: string, folder?: string, address?: string): Promise<AgentIdentity>;
  channelOf(identity: AgentIdentity): Channel;
  close(): Promise<void>;
}

export async function openTestStore(dir: string): Promise<Store> {
  return openStore({ type: "sqlite", path: join(dir, "store.db") }, { clock: systemClock });
}

export async function startAgentFace(options: AgentFaceOptions): Promise<AgentFace> {
  const { dir, store, clock = systemClock } = options;
  const records = await openRecords(store, { prefix: "/gpve/", log: quietLog });
  const sealer = createSealer(options.masterKey);
  const pki = await ClusterPki.open({
    records,
    sealer,
    clock,
    dir: join(dir, "pki"),
    clusterName: "test",
    names: ["localhost", "127.0.0.1"],
  });
  const board = new MemoryNodeBoard({ clock, nodes: records.collection(nodeRecords) });
  const membership = new Membership({
    records,
    clock,
    board,
    issuer: pki,
    random: (n) => randomBytes(n),
    serves: async () => false,
  });
  const stopBoard = board.start();
  const face = composeAgentFace({
    forServers: undefined,
    membership,
    storageSecrets: new StorageSecrets(records, sealer),
    board,
    pki,
    store,
    records,
    clock,
    log: quietLog,
    serverVersion: "1",
    clusterName: "test",
    heartbeatIntervalMs: 50,
    reportIntervalMs: 50,
  });
  const tls = pki.serverTls();
  const listener = await listen({
    host: "127.0.0.1",
    port: 0,
    certificate: { cert: tls.certPem, key: tls.keyPem },
    agentCertificate: { cert: tls.certPem, key: tls.keyPem },
    onRequest: (_req, res) => res.end("hello"),
    isProxy: () => false,
    passOn: () => undefined,
    onUpgrade: (_req, socket) => socket.destroy(),
    ...face.options,
  });
  const stopHangingUp = face.watch(listener);
  const endpoint = `https://127.0.0.1:${listener.address.port}`;
  return {
    endpoint,
    records,
    pki,
    membership,
    board,
    joinAs: async (node, folder = node, address = "127.0.0.1") => {
      const { token } = await membership.invite({ ttlMs: 60_000, createdBy: "root@pam" });
      const identities = new IdentityStore({ dir: join(dir, folder), clock });
      return identities.join({ endpoint, token, node, address, port: 1234, agentVersion: "1" });
    },
    channelOf: (identity) => createChannel({ url: endpoint, tls: identity, clock: systemClock }),
    close: async () => {
      stopHangingUp();
      await listener.close();
      stopBoard();
      await records.close();
    },
  };
}
