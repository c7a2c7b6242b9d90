// Wires the fence process of a node: a line to each server, the lease, the guests and the watchdog. It knows nothing of
// the agent but what the agent wrote down, and outlives it.
import { systemClock } from "@gpve/kit/clock.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import { createChannel, type Channel } from "@gpve/kit/grpc/channel.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { notAServer } from "@gpve/kit/pki/server-role.ts";
import { etcdStoreOver } from "@gpve/store/etcd/etcd-store.ts";
import { linkOver } from "@gpve/store/etcd/link.ts";
import type { Store } from "@gpve/store/port.ts";
import { createKeeper } from "./compose-ha.ts";
import { GuestCgroups } from "./infrastructure/cgroup/guest-cgroups.ts";
import { FenceFiles } from "./infrastructure/fence/fence-files.ts";
import { FirstAnswer } from "./infrastructure/fence/first-answer.ts";
import { MarkedGuests } from "./infrastructure/fence/guarded-guests.ts";
import { leaveServiceGroup } from "./infrastructure/fence/leave-service-group.ts";
import { ServerLines } from "./infrastructure/fence/server-lines.ts";
import { chooseWatchdog } from "./infrastructure/fence/watchdogs.ts";
import { IdentityStore, type AgentIdentity } from "./infrastructure/server-link/identity.ts";
import type { KnownServers } from "./infrastructure/server-link/known-servers.ts";

export interface FenceSettings {
  readonly data: DataDir;
  readonly node: string;
  readonly servers: KnownServers;
  readonly log: Logger;
  /** As the configuration has it. */
  readonly watchdog: string | undefined;
  /** Program that can set the time of a watchdog. */
  readonly supervisor: string | undefined;
}

export interface RunningFence {
  /** Resolves when `signal` of its making has fired and nothing of it runs. */
  readonly ended: Promise<void>;
  stop(): Promise<void>;
}

/** Of one server, while others are asked: a busy one is slow, one that is cut off says nothing. */
const ATTEMPT_MS = 3_000;
const DEADLINE_MS = 4_500;

export async function startFence(settings: FenceSettings): Promise<RunningFence> {
  const { data, node, servers, log } = settings;
  const clock = systemClock;
  const identities = new IdentityStore({ dir: data.file("pki"), clock });
  const identity = await identities.require(node);
  leaveServiceGroup(() => new GuestCgroups(data.instanceId).holdFiles(), log);
  const open = (url: string, tls: AgentIdentity): Channel =>
    createChannel({
      url,
      tls,
      clock,
      acceptPeer: (_host, certificate) => notAServer(url, certificate),
    });
  // The agent learns of servers that join and leave, and writes them down.
  const endpoints = (): readonly string[] => {
    servers.readAgain();
    return servers.urls();
  };
  const lines = new ServerLines({ endpoints, clock, identity: () => identities.load(node), open }, identity);
  const limits = { clock, attemptMs: ATTEMPT_MS, deadlineMs: DEADLINE_MS };
  const stores = new Map<string, Store>();
  const storeAt = (url: string): Store => {
    const store = stores.get(url) ?? etcdStoreOver([linkOver(url, () => lines.transport(url))], limits);
    stores.set(url, store);
    return store;
  };
  const files = new FenceFiles(data.file("run"));
  const keeper = createKeeper({
    node,
    store: new FirstAnswer({ stores: () => lines.urls().map(storeAt), clock }),
    clock,
    log,
    files,
    guests: new MarkedGuests(data.file("run", "guests"), files, clock),
    watchdog: chooseWatchdog(settings),
  });
  const stop = new AbortController();
  const stopKeeping = lines.keep(() => files.readWish(), log);
  const ended = keeper.run(stop.signal);
  return {
    ended,
    async stop() {
      stopKeeping();
      stop.abort();
      await ended;
      await keeper.release();
      lines.close();
    },
  };
}
