// `gpve server --config FILE`: a server alone, for clusters.
import { given } from "@gpve/contracts/given.ts";
import { createAgent } from "@gpve/agent/application/agent.ts";
import { createTaskHandlers } from "@gpve/agent/presentation/pve/node/task-handlers.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import { joinDirectories } from "@gpve/domain/task/operation-tasks.ts";
import { taskRecords } from "@gpve/domain/task/task-record.ts";
import { requireValidParams } from "@gpve/domain/schema/validate-params.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { parseServerConfiguration, type ServerConfiguration } from "@gpve/kit/config/configuration.ts";
import { openDataDir } from "@gpve/kit/data-dir.ts";
import { acquireProcessLock } from "@gpve/kit/process-lock.ts";
import { openServer, type OpenServer } from "@gpve/server/compose.ts";
import { publishedServerTasks } from "@gpve/server/application/node/server-tasks.ts";
import { startCompaction } from "@gpve/store/compaction.ts";
import { openStore, type StoreConfig } from "@gpve/store/open-store.ts";
import { readConfigFile } from "../config-file.ts";
import { keepCredentials, prepareCredentials } from "../credentials.ts";
import type { Io } from "../io.ts";
import { certificateNames, machineName } from "../machine-names.ts";
import { startObservability } from "../observability.ts";
import { clearRunState, writeRunState } from "../run-state.ts";
import { showDataDir } from "../show-data-dir.ts";
import { untilSignalled } from "../until-signalled.ts";
import { commandOptions, formatUrl } from "./options.ts";

export async function server(args: readonly string[], io: Io): Promise<number> {
  const options = commandOptions("server", args, {
    config: { type: "string" },
    data: { type: "string" },
    node: { type: "string" },
  });
  const config = readConfigFile("server", options.config, parseServerConfiguration);
  showDataDir("server", args, config.dataDir);
  const data = openDataDir(options.data ?? config.dataDir);
  const lock = acquireProcessLock(data.file("run", "lock"));
  try {
    const clock = systemClock;
    const name = options.node ?? machineName();
    const observability = await startObservability({
      component: "server",
      level: config.logging.level,
      format: config.logging.format,
      output: config.logging.output ?? "stdout",
      otlpEndpoint: config.tracing.otlpEndpoint,
      metrics: config.metrics.enabled ? config.metrics : undefined,
    });
    const { log, metrics } = observability;
    const storeConfig = storeOf(config, data.file("server", "store.db"));
    const store = await openStore(storeConfig, {
      clock,
      observe: (operation, ok, seconds) => metrics.observeStore(operation, ok, seconds),
    });
    const stopCompaction = startCompaction(store, { clock, log });
    const { address, port, spicePort, names, trustedProxies } = config.server;
    const opened = await openServer({
      data,
      bootstrap: prepareCredentials(data, `server-${name}`),
      store,
      host: address,
      port,
      spicePort,
      nodeName: name,
      clusterName: config.cluster.name,
      names: [...certificateNames(name, address), ...names],
      trustedProxies,
      log,
      metrics,
      shared: storeConfig.type === "etcd",
    });
    const listener = await opened.start({ serverTasks: serverTasks(opened) });
    const url = formatUrl({ host: address, port: listener.address.port });
    keepCredentials(data, url, opened);
    writeRunState(data, {
      url,
      node: name,
      startedAt: new Date(clock.now()).toISOString(),
      version: PRODUCT_VERSION,
    });
    io.out(`gpve-server ${PRODUCT_VERSION} is ready at ${url}`);
    const code = await untilSignalled(async () => {
      stopCompaction();
      await opened.close();
      await store.close();
      await observability.close();
    });
    clearRunState(data);
    return code;
  } finally {
    lock.release();
  }
}

function storeOf(config: ServerConfiguration, sqlitePath: string): StoreConfig {
  const { etcd, sqlite } = config.cluster;
  if (etcd === undefined) return { type: "sqlite", path: sqlite?.path ?? sqlitePath };
  return {
    type: "etcd",
    endpoints: etcd.endpoints,
    ...given({ caFile: etcd.caFile, certFile: etcd.certFile, keyFile: etcd.keyFile }),
  };
}

/** The task methods for what this server itself runs, and what it knows of the others'. */
function serverTasks(opened: OpenServer): (node: string) => ReturnType<typeof createAgent> {
  const published = publishedServerTasks(opened.records.collection(taskRecords));
  const tasks = joinDirectories([opened.tasks, published]);
  return (node) =>
    createAgent({
      node,
      handlers: [createTaskHandlers({ tasks, logs: opened.taskLogs })],
      validate: (route, params, source) => {
        const method = methodByKey(route);
        if (method === undefined) throw new AppError("internal.error", `no such route: ${route}`);
        return requireValidParams(method, params, { source });
      },
      accessOf: opened.access.accessOf,
      logFor: () => opened.log,
    });
}
