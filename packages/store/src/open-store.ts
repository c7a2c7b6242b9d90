// From configuration to a Store.
import { readFileSync } from "node:fs";
import { given } from "@gpve/contracts/given.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { type Clock, systemClock } from "@gpve/kit/clock.ts";
import { type MemberUrls, openEtcdStore } from "./etcd/etcd-store.ts";
import type { Store } from "./port.ts";
import { openSqliteStore } from "./sqlite/sqlite-store.ts";
import { type ObserveStore, timedStore } from "./timed-store.ts";

export type StoreConfig =
  | {
      readonly type: "sqlite";
      /** File, or ":memory:". */
      readonly path: string;
      readonly maxBytes?: number;
    }
  | {
      readonly type: "etcd";
      readonly endpoints: readonly string[];
      /** Which members there are, where that changes while the store is open. */
      readonly members?: MemberUrls;
      readonly caFile?: string;
      readonly certFile?: string;
      readonly keyFile?: string;
      readonly username?: string;
      readonly password?: string;
    };

export interface OpenStoreOptions {
  readonly clock?: Clock;
  /** Told the time of every operation. */
  readonly observe?: ObserveStore;
}

export async function openStore(config: StoreConfig, options: OpenStoreOptions = {}): Promise<Store> {
  const clock = options.clock ?? systemClock;
  const store = open(config, clock);
  return options.observe === undefined ? store : timedStore(store, options.observe, clock);
}

function open(config: StoreConfig, clock: Clock): Store {
  if (config.type === "sqlite") {
    const { path, maxBytes } = config;
    return openSqliteStore({ path, clock, ...given({ maxBytes }) });
  }
  const { endpoints, members, caFile, certFile, keyFile, username, password } = config;
  for (const endpoint of endpoints) checkEndpoint(endpoint);
  if ((certFile === undefined) !== (keyFile === undefined)) {
    throw new AppError("config.invalid", "the etcd store needs both certFile and keyFile, or neither");
  }
  if ((username === undefined) !== (password === undefined)) {
    throw new AppError("config.invalid", "the etcd store needs both username and password, or neither");
  }
  return openEtcdStore({
    endpoints,
    ...given({ members }),
    ...(username === undefined || password === undefined ? {} : { user: { username, password } }),
    clock,
    tls: {
      ...(caFile === undefined ? {} : { ca: readConfigured("caFile", caFile) }),
      ...(certFile === undefined ? {} : { cert: readConfigured("certFile", certFile) }),
      ...(keyFile === undefined ? {} : { key: readConfigured("keyFile", keyFile) }),
    },
  });
}

function checkEndpoint(endpoint: string): void {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  if (url === undefined || !["http:", "https:"].includes(url.protocol) || url.hostname === "") {
    throw new AppError("config.invalid", `etcd endpoint ${endpoint} is not of the form https://host:port`);
  }
}

function readConfigured(setting: string, path: string): Uint8Array {
  try {
    return readFileSync(path);
  } catch (err) {
    throw new AppError(
      "config.invalid",
      `cannot read ${setting} ${path} of the etcd store: ${messageOf(err)}`,
      {
        cause: err,
      },
    );
  }
}
