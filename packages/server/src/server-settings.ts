// What a process must say of the server that it runs.
import type { StorageDefaults } from "@gpve/domain/cluster/storage-defaults.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { SchedulerConfiguration } from "@gpve/kit/config/configuration.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Metrics } from "@gpve/kit/telemetry/metrics.ts";
import type { Store } from "@gpve/store/port.ts";
import type { StoreMembersPort } from "./application/cluster/store-members.ts";
import type { BootstrapOptions } from "./application/access/bootstrap.ts";
import type { ForServers } from "./presentation/grpc/server-service.ts";
import type { CertificateFiles } from "./infrastructure/pki/own-certificate.ts";

export interface ServerSettings {
  readonly data: DataDir;
  readonly store: Store;
  readonly host: string;
  readonly port: number;
  /** Where SPICE viewers come in; undefined = nowhere. */
  readonly spicePort?: number;
  /** Name of the machine this server runs on; the node part of its own tasks. */
  readonly nodeName: string;
  /** undefined = one node, no cluster. */
  readonly clusterName: string | undefined;
  /** Proxies whose X-Forwarded-For is honoured. */
  readonly trustedProxies: readonly string[];
  /** Names and addresses for the certificate. */
  readonly names: readonly string[];
  /** The operator's own certificate for clients; undefined = the cluster's. */
  readonly certificateFiles?: CertificateFiles;
  /** `storage.defaults` of a configuration file; undefined = there is no file. */
  readonly storageDefaults?: StorageDefaults;
  /** `scheduler` of a configuration file, as it stands there; the scheduler judges it. */
  readonly scheduler?: SchedulerConfiguration;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly clock?: Clock;
  /** Secrets for a first start, already written down by the caller. */
  readonly bootstrap?: BootstrapOptions;
  /** Hands out what a further server needs; absent = the store serves one. */
  readonly forServers?: (() => Promise<ForServers>) | undefined;
  /** Where the store has members. */
  readonly storeMembers?: StoreMembersPort | undefined;
  /** Several servers may share the store: ownership is by lease. */
  readonly shared: boolean;
  /** Takes power or storage from a node that is lost; absent = its lease is proof enough. */
  readonly fenceCommand?: readonly string[] | undefined;
}
