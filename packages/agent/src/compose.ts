// The agent as a process of its own: joins the cluster once, then serves servers and reports to them for ever.
import { readFileSync } from "node:fs";
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import type { AccessView, Actor } from "@gpve/domain/request/context.ts";
import { background } from "@gpve/kit/background.ts";
import { systemClock, type Clock } from "@gpve/kit/clock.ts";
import { serverEndpoints, type AgentConfiguration } from "@gpve/kit/config/configuration.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import { exec } from "@gpve/kit/exec.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { RemoteStore } from "@gpve/store/remote/remote-store.ts";
import { composeNode, type NodeOptions } from "./compose-node.ts";
import { createClusterAccess } from "./infrastructure/access/cluster-access.ts";
import { StoreTaskPublisher } from "./infrastructure/operation/store-task-publisher.ts";
import { IdentityStore, type AgentIdentity } from "./infrastructure/server-link/identity.ts";
import { ServerLink } from "./infrastructure/server-link/server-link.ts";
import { listenForServers } from "./presentation/grpc/listener.ts";

export interface AgentProcessOptions {
  readonly config: AgentConfiguration;
  readonly data: DataDir;
  readonly log: Logger;
  readonly clock?: Clock;
  /** Ends waiting for a server that cannot be reached at the first join. */
  readonly signal: AbortSignal;
  readonly areas?: NodeOptions["areas"];
}

export interface RunningAgent {
  readonly node: string;
  readonly port: number;
  close(): Promise<void>;
}

export async function startAgent(options: AgentProcessOptions): Promise<RunningAgent> {
  const { config, data, log, clock = systemClock } = options;
  const { nodeName: node, address, port } = config.agent;
  const endpoints = serverEndpoints(config);
  if (endpoints.length === 0) {
    throw new AppError("config.invalid", "server.endpoint is missing: the agent needs at least one server");
  }
  const identities = new IdentityStore({ dir: data.file("agent", "pki"), clock });
  let identity = (await identities.load(node)) ?? (await joinCluster(options, identities, endpoints, clock));

  const links: ServerLink[] = [];
  const linkInUse = (): ServerLink => {
    const link = links.find((one) => one.connected()) ?? links[0];
    if (link === undefined) throw new AppError("node.unavailable", "the agent has no line to a server yet");
    return link;
  };
  const store = new RemoteStore({ transport: () => linkInUse().transport(), clock });
  const access = lateAccess();
  const composed = await composeNode({
    node,
    data,
    clock,
    exec,
    log,
    publisher: new StoreTaskPublisher(store),
    accessOf: access.of,
    ...(config.qemu.binaryPath === undefined ? {} : { qemuBinary: config.qemu.binaryPath }),
    ...(options.areas === undefined ? {} : { areas: options.areas }),
  });
  const listener = await listenForServers({ agent: composed.agent, address, port, tls: identity });
  for (const endpoint of endpoints) {
    const link = new ServerLink({
      endpoint,
      node,
      address,
      port: listener.port,
      agentVersion: PRODUCT_VERSION,
      bootId: composed.facts.facts().facts.bootId,
      clock,
      log: log.child({ component: "server-link" }),
      identity: () => identity,
      onIdentity: (next) => {
        identity = identities.save(next);
        listener.setTls(identity);
      },
      report: (sent) => composed.reporter.report(sent),
    });
    links.push(link);
    link.start();
  }
  const records = { stop: new AbortController() };
  background(log, "reading the cluster's records", access.open(store, clock, log, records.stop.signal));
  await composed.start();
  log.info({ node, port: listener.port, endpoints }, "agent is ready");
  return {
    node,
    port: listener.port,
    async close() {
      await listener.close();
      records.stop.abort(new AppError("operation.cancelled", "the agent stops"));
      await composed.close();
      await Promise.all(links.map((link) => link.close()));
      await store.close();
    },
  };
}

/** Waits for a server to be there; a refused token is final. */
async function joinCluster(
  options: AgentProcessOptions,
  identities: IdentityStore,
  endpoints: readonly string[],
  clock: Clock,
): Promise<AgentIdentity> {
  const { config, log, signal } = options;
  const { token, caFile } = config.server;
  if (token === undefined) {
    throw new AppError("config.invalid", "this node has not joined a cluster yet: server.token is missing");
  }
  for (let attempt = 0; ; attempt++) {
    const endpoint = endpoints[attempt % endpoints.length] ?? "";
    try {
      return await identities.join({
        endpoint,
        token,
        node: config.agent.nodeName,
        address: config.agent.address,
        port: config.agent.port,
        agentVersion: PRODUCT_VERSION,
        ...(caFile === undefined ? {} : { caPem: readFileSync(caFile, "utf8") }),
      });
    } catch (err) {
      if (!isAppError(err, "node.unavailable")) throw err;
      log.warn({ endpoint, err: messageOf(err) }, "no server to join yet");
      await clock.sleep(1_000, signal);
    }
  }
}

/** Permissions need the cluster's records, which come with the first line to a server. Until then: no answers. */
function lateAccess() {
  let view: ((actor: Actor | undefined) => AccessView) | undefined;
  return {
    of: (actor: Actor | undefined): AccessView => {
      if (view === undefined) {
        throw new AppError(
          "node.unavailable",
          "this node has not read the cluster's records yet: try again",
          {
            pveStatus: 596,
          },
        );
      }
      return view(actor);
    },
    async open(store: RemoteStore, clock: Clock, log: Logger, signal: AbortSignal): Promise<void> {
      while (!signal.aborted && view === undefined) {
        try {
          const records = await openRecords(store, { prefix: "/gpve/", signal, log, clock });
          view = createClusterAccess(records, clock);
        } catch (err) {
          if (signal.aborted) return;
          log.warn({ err: messageOf(err) }, "the cluster's records cannot be read yet");
          await clock.sleep(1_000, signal).catch(() => undefined);
        }
      }
    },
  };
}
