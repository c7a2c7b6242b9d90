// A server from its configuration file: for `gpve server`, and for `gpve up` on a data directory that is of a cluster.
import { createAgent } from "@gpve/agent/application/agent.ts";
import { createTaskHandlers } from "@gpve/agent/presentation/pve/node/task-handlers.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import { requireValidParams } from "@gpve/domain/schema/validate-params.ts";
import { background } from "@gpve/kit/background.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import { openServer } from "@gpve/server/compose.ts";
import type { OpenServer } from "@gpve/server/open-server.ts";
import { publishedServerTasks, tasksInNameOf } from "@gpve/server/application/task/published-server-tasks.ts";
import { startCompaction } from "@gpve/store/compaction.ts";
import { openStore, type StoreConfig } from "@gpve/store/open-store.ts";
import { EmbeddedEtcd } from "./etcd/embedded-etcd.ts";
import { storeMembers } from "./etcd/store-members.ts";
import { forServers } from "./for-servers.ts";
import { keepCredentials, prepareCredentials } from "./credentials.ts";
import { certificateNames, toldAddress } from "./machine-names.ts";
import { startObservability } from "./observability.ts";
import type { ServerFileSettings } from "./settings/server-settings.ts";
import { formatUrl } from "./commands/options.ts";

export interface StartedServer {
  readonly url: string;
  readonly port: number;
  stop(): Promise<void>;
}

export async function startServer(
  settings: ServerFileSettings,
  data: DataDir,
  name: string,
): Promise<StartedServer> {
  const clock = systemClock;
  const observability = await startObservability({ component: "server", ...settings.observability });
  const { log, metrics } = observability;
  const embedded =
    settings.store.type === "embedded"
      ? await EmbeddedEtcd.open({ data, name, settings: settings.store, clock, log })
      : undefined;
  const storeConfig = embedded?.config ?? storeConfigOf(settings, data);
  const store = await openStore(storeConfig, {
    clock,
    observe: (operation, ok, seconds) => metrics.observeStore(operation, ok, seconds),
  });
  const stopCompaction = startCompaction(store, { clock, log });
  const { host, names } = settings.server;
  const opened = await openServer({
    data,
    bootstrap: prepareCredentials(data, `server-${name}`),
    store,
    ...settings.server,
    forServers: forServers(data, storeConfig, embedded),
    storeMembers: storeMembers(storeConfig, embedded !== undefined),
    nodeName: name,
    names: [...certificateNames(name, host), ...names],
    log,
    metrics,
    shared: storeConfig.type === "etcd",
  });
  const listener = await opened.start({ serverTasks: serverTasks(opened) });
  const { port } = listener.address;
  const url = formatUrl({ host, port });
  keepCredentials(data, url, opened);
  const told = toldAddress(host, settings.store.type === "embedded" ? settings.store.address : undefined);
  const stopPlaces = new AbortController();
  const places = opened.membership.servers.keep(
    {
      name,
      url: told === undefined ? undefined : formatUrl({ host: told, port }),
      fingerprint: () => opened.certificates.shown().fingerprint,
    },
    {
      clock: systemClock,
      signal: stopPlaces.signal,
      onFailure: (err) =>
        log.warn({ err: messageOf(err) }, "where servers are cannot be kept now; tried again in ten minutes"),
    },
  );
  background(log, "keeping where servers are", places);
  return {
    url,
    port,
    async stop() {
      stopCompaction();
      stopPlaces.abort();
      await opened.close();
      await store.close();
      await embedded?.close();
      await observability.close();
    },
  };
}

function storeConfigOf({ store }: ServerFileSettings, data: DataDir): StoreConfig {
  return store.type === "default" || store.type === "embedded"
    ? { type: "sqlite", path: data.file("server", "store.db") }
    : store;
}

/** The task methods for what this server itself runs, and what it knows of the others' tasks. */
function serverTasks(opened: OpenServer): (node: string) => ReturnType<typeof createAgent> {
  const published = publishedServerTasks(opened.records, systemClock);
  return (node) =>
    createAgent({
      node,
      handlers: [
        createTaskHandlers({ tasks: tasksInNameOf(node, opened.tasks, published), logs: opened.taskLogs }),
      ],
      validate: (route, params, source) => {
        const method = methodByKey(route);
        if (method === undefined) throw new AppError("internal.error", `no such route: ${route}`);
        return requireValidParams(method, params, { source });
      },
      accessOf: opened.access.accessOf,
      logFor: () => opened.log,
    });
}
