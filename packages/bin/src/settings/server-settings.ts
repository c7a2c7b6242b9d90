// What a server's configuration file makes of a server. Every key is read here and nowhere else, into the options of
// those that act on it; a test changes each key and looks for what it changes.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { ServerConfiguration } from "@gpve/kit/config/configuration.ts";
import type { ServerSettings } from "@gpve/server/server-settings.ts";
import type { StoreConfig } from "@gpve/store/open-store.ts";
import type { EmbeddedEtcdSettings } from "../etcd/etcd-places.ts";
import { reachableAddress } from "../machine-names.ts";
import { observabilitySettings, type FileObservability } from "./observability-settings.ts";

export interface ServerFileSettings {
  readonly dataDir: string;
  readonly store:
    | StoreConfig
    | { readonly type: "default" }
    | ({ readonly type: "embedded" } & EmbeddedEtcdSettings);
  readonly observability: FileObservability;
  readonly server: Pick<
    ServerSettings,
    | "host"
    | "port"
    | "spicePort"
    | "clusterName"
    | "trustedProxies"
    | "names"
    | "certificateFiles"
    | "fenceCommand"
    | "storageDefaults"
    | "scheduler"
  >;
}

/** Throws config.invalid for keys that go only together. */
export function serverSettings(config: ServerConfiguration): ServerFileSettings {
  const { address, port, spicePort, names, trustedProxies } = config.server;
  return {
    dataDir: config.dataDir,
    store: storeOf(config),
    observability: observabilitySettings(config),
    server: {
      host: address,
      port,
      spicePort,
      clusterName: config.cluster.name,
      names,
      trustedProxies,
      ...(config.ha.fenceCommand.length === 0 ? {} : { fenceCommand: config.ha.fenceCommand }),
      storageDefaults: given(config.storage.defaults),
      scheduler: config.scheduler,
      ...given({ certificateFiles: certificateFiles(config.server) }),
    },
  };
}

function certificateFiles({
  tlsCertFile: certFile,
  tlsKeyFile: keyFile,
}: ServerConfiguration["server"]): ServerSettings["certificateFiles"] {
  if (certFile === undefined && keyFile === undefined) return undefined;
  if (certFile !== undefined && keyFile !== undefined) return { certFile, keyFile };
  throw new AppError(
    "config.invalid",
    `server.${certFile === undefined ? "tlsCertFile" : "tlsKeyFile"} is missing: a certificate and its key are named together, or neither`,
  );
}

function storeOf({ cluster, server }: ServerConfiguration): ServerFileSettings["store"] {
  const { etcd, sqlite } = cluster;
  if (etcd === undefined)
    return sqlite?.path === undefined ? { type: "default" } : { type: "sqlite", path: sqlite.path };
  if (sqlite?.path !== undefined)
    throw new AppError("config.invalid", "cluster.etcd and cluster.sqlite are two stores: name one of them");
  const { endpoints, caFile, certFile, keyFile, username, password } = etcd;
  if (etcd.embedded) {
    const foreign = Object.entries({ caFile, certFile, keyFile, username, password });
    const named = [
      ...(endpoints.length > 0 ? ["endpoints"] : []),
      ...foreign.filter(([, v]) => v !== undefined).map(([k]) => k),
    ];
    if (named.length > 0)
      throw new AppError(
        "config.invalid",
        `cluster.etcd.${named.join(", cluster.etcd.")} is of an etcd that others run: leave it out where gpve runs it (cluster.etcd.embedded)`,
      );
    const { address = reachableAddress(server.address), port, peerPort } = etcd;
    return { type: "embedded", address, port, peerPort };
  }
  if (endpoints.length === 0)
    throw new AppError(
      "config.invalid",
      "cluster.etcd.endpoints is missing: name the members, or let gpve run them itself (cluster.etcd.embedded: true)",
    );
  return { type: "etcd", endpoints, ...given({ caFile, certFile, keyFile, username, password }) };
}
