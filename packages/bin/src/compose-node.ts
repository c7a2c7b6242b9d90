// Server and agent as one process on one data directory: what `gpve up` runs. They talk through the same contract as
// two machines would, in memory.
import { given } from "@gpve/contracts/given.ts";
import { startAgent } from "@gpve/agent/compose.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import { background } from "@gpve/kit/background.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { CrashInjector } from "@gpve/kit/operation/ports.ts";
import { openServer } from "@gpve/server/compose.ts";
import { RecordsTaskPublisher } from "@gpve/domain/task/records-task-publisher.ts";
import { startCompaction } from "@gpve/store/compaction.ts";
import { openStore } from "@gpve/store/open-store.ts";
import { formatUrl, type ListenAddress } from "./commands/options.ts";
import { keepCredentials, prepareCredentials } from "./credentials.ts";
import { certificateNames, machineName, reachableAddress } from "./machine-names.ts";
import { startObservability } from "./observability.ts";
import { selfProgram } from "./self-command.ts";
import { supervisorSource } from "./supervisor-source.ts";

export interface NodeSettings {
  readonly data: DataDir;
  readonly listen: ListenAddress;
  readonly metrics: ListenAddress | undefined;
  readonly nodeName: string | undefined;
  readonly otlpEndpoint: string | undefined;
  readonly makeNetwork: boolean;
  /** Test compositions only. */
  readonly crash?: CrashInjector;
}

export interface RunningNode {
  readonly name: string;
  readonly port: number;
  /** Where a file says where it listens. */
  readonly host?: string;
  readonly metricsUrl: string | undefined;
  stop(): Promise<void>;
}

/** Proxmox's own; where it is taken, answers name the port that is used instead. */
const SPICE_PORT = 3128;
/** In one process nobody dials the agent; the record needs a port all the same. */
const LOCAL_AGENT_PORT = 8444;

export async function startNode(settings: NodeSettings): Promise<RunningNode> {
  const { data, listen } = settings;
  const clock = systemClock;
  const name = settings.nodeName ?? machineName();
  const observability = await startObservability({
    component: "gpve",
    output: data.file("log", "gpve.jsonl"),
    otlpEndpoint: settings.otlpEndpoint,
    metrics:
      settings.metrics === undefined
        ? undefined
        : { address: `${settings.metrics.host}:${settings.metrics.port}` },
    attributes: { "gpve.node": name, "gpve.instance": data.instanceId },
  });
  const { log, metrics } = observability;
  const store = await openStore(
    { type: "sqlite", path: data.file("server", "store.db") },
    { clock, observe: (operation, ok, seconds) => metrics.observeStore(operation, ok, seconds) },
  );
  const stopCompaction = startCompaction(store, { clock, log });
  const server = await openServer({
    data,
    bootstrap: prepareCredentials(data, "up"),
    store,
    host: listen.host,
    port: listen.port,
    spicePort: SPICE_PORT,
    nodeName: name,
    clusterName: undefined,
    // One machine by itself; what stands behind proxies has a configuration file.
    trustedProxies: [],
    names: certificateNames(name, listen.host),
    log: log.child({ component: "server" }),
    metrics,
    shared: false,
  });
  const agent = await startAgent({
    data,
    supervisor: supervisorSource(data),
    self: selfProgram(),
    front: { host: listen.host, name: reachableAddress(listen.host) },
    nodeName: name,
    accessOf: server.access.accessOf,
    publisher: new RecordsTaskPublisher(server.records),
    log: log.child({ component: "agent" }),
    metrics,
    serverTasks: server.tasks,
    storages: () => server.storages.definitions(),
    storageSecret: async (storage, secret) => server.storageSecrets.forNode(name, storage, secret),
    guestType: (vmid) => server.records.collection(guestCollection).get(String(vmid))?.value.type,
    records: () => server.records,
    clusterName: () => undefined,
    makeNetwork: settings.makeNetwork,
    fence: { alone: store },
    ...given({ crash: settings.crash }),
  });
  await server.membership.enrolLocal(
    name,
    reachableAddress(listen.host),
    LOCAL_AGENT_PORT,
    server.pki.serverTls().fingerprint,
  );
  const stopReports = new AbortController();
  const reporting = agent.reporter.follow((report) => server.board.accept(report), {
    signal: stopReports.signal,
    onError: (err) => log.error({ err: String(err) }, "node report failed"),
  });
  background(log, "node reports", reporting);
  await agent.reporter.told();
  const listener = await server.start({ agent: agent.agent });
  const port = listener.address.port;
  const url = formatUrl({ host: listen.host, port });
  keepCredentials(data, url, server);
  log.info({ url, node: name }, "gpve is ready");
  return {
    name,
    port,
    metricsUrl: observability.metricsUrl,
    async stop() {
      log.info({}, "gpve stops");
      stopReports.abort();
      stopCompaction();
      await agent.close();
      await server.close();
      await store.close();
      await observability.close();
    },
  };
}
