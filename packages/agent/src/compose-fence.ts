// Wires the fence process of a node: a line to each server, the lease, the guests and the watchdog. It knows nothing of
// the agent but what the agent wrote down, and outlives it.
import { writeFileSync } from "node:fs";
import { AppError } from "@gpve/contracts/errors.ts";
import { ignore } from "@gpve/kit/background.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import { createChannel, type Channel } from "@gpve/kit/grpc/channel.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { notAServer } from "@gpve/kit/pki/server-role.ts";
import { etcdStoreOver } from "@gpve/store/etcd/etcd-store.ts";
import { linkOver } from "@gpve/store/etcd/link.ts";
import { createKeeper } from "./compose-ha.ts";
import { GuestCgroups } from "./infrastructure/cgroup/guest-cgroups.ts";
import { FenceFiles } from "./infrastructure/fence/fence-files.ts";
import { MarkedGuests } from "./infrastructure/fence/guarded-guests.ts";
import { chooseWatchdog } from "./infrastructure/fence/watchdogs.ts";
import { IdentityStore, type AgentIdentity } from "./infrastructure/server-link/identity.ts";

export interface FenceSettings {
  readonly data: DataDir;
  readonly node: string;
  readonly endpoints: readonly string[];
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

/** The agent renews the certificate; lines are opened anew with what is there. */
const REOPEN_MS = 10 * 60_000;
/** A server that does not answer must leave time for the others before guests would have to end. */
const ATTEMPT_MS = 1_500;
const DEADLINE_MS = 4_500;

export async function startFence(settings: FenceSettings): Promise<RunningFence> {
  const { data, node, endpoints, log } = settings;
  const clock = systemClock;
  const identities = new IdentityStore({ dir: data.file("pki"), clock });
  let identity = await requireIdentity(identities, node);
  leaveServiceGroup(data, log);
  const open = (): Map<string, Channel> =>
    new Map(
      endpoints.map((url) => [
        url,
        createChannel({
          url,
          tls: identity,
          clock,
          connectTimeoutMs: ATTEMPT_MS,
          acceptPeer: (_host, certificate) => notAServer(url, certificate),
        }),
      ]),
    );
  let channels = open();
  const transport = (url: string) => {
    const channel = channels.get(url);
    if (channel === undefined) throw new AppError("internal.error", `no line to ${url}`);
    return channel.transport;
  };
  const store = etcdStoreOver(
    endpoints.map((url) => linkOver(url, () => transport(url))),
    { clock, attemptMs: ATTEMPT_MS, deadlineMs: DEADLINE_MS },
  );
  const files = new FenceFiles(data.file("run"));
  const keeper = createKeeper({
    node,
    store,
    clock,
    log,
    files,
    guests: new MarkedGuests(data.file("run", "guests"), files, clock),
    watchdog: chooseWatchdog(settings),
  });
  const stop = new AbortController();
  const reopen = setInterval(() => {
    void identities.load(node).then((found) => {
      if (found === undefined) return;
      identity = found;
      const old = channels;
      channels = open();
      clock.after(5_000, () => {
        for (const channel of old.values()) channel.close();
      });
    });
  }, REOPEN_MS);
  const ended = keeper.run(stop.signal);
  return {
    ended,
    async stop() {
      clearInterval(reopen);
      stop.abort();
      await ended;
      await keeper.release();
      for (const channel of channels.values()) channel.close();
    },
  };
}

async function requireIdentity(identities: IdentityStore, node: string): Promise<AgentIdentity> {
  const identity = await identities.load(node);
  if (identity !== undefined) return identity;
  throw new AppError(
    "config.invalid",
    `node ${node} has not joined a cluster yet: its agent does that first`,
  );
}

/** Whoever stops the agent's group of processes must not stop this one: it goes where supervisors are. */
function leaveServiceGroup(data: DataDir, log: Logger): void {
  if (process.getuid?.() !== 0) return;
  try {
    for (const file of new GuestCgroups(data.instanceId).holdFiles())
      writeFileSync(file, String(process.pid));
  } catch (err) {
    log.warn({}, "the fence process stays in the agent's group and ends with it where that is stopped whole");
    ignore(err, "said above");
  }
}
