// What this server gives to a further one that shows its token: the key of the cluster's secrets, and the way to etcd.
import { readFileSync } from "node:fs";
import { given } from "@gpve/contracts/given.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { ServerSettings } from "@gpve/server/server-settings.ts";
import type { StoreConfig } from "@gpve/store/open-store.ts";
import type { EmbeddedEtcd } from "./etcd/embedded-etcd.ts";

export function forServers(
  data: DataDir,
  store: StoreConfig,
  embedded: Pick<EmbeddedEtcd, "authority" | "current"> | undefined,
): ServerSettings["forServers"] {
  if (embedded !== undefined)
    return () =>
      Promise.resolve({
        masterKey: masterKeyOf(data),
        etcd: { endpoints: embedded.current(), ...embedded.authority() },
      });
  if (store.type !== "etcd") return undefined;
  const { endpoints, caFile, certFile, keyFile, username, password } = store;
  const read = (file: string | undefined): string | undefined =>
    file === undefined ? undefined : readFileSync(file, "utf8");
  return () =>
    Promise.resolve({
      masterKey: masterKeyOf(data),
      etcd: {
        endpoints,
        ...given({ caPem: read(caFile), certPem: read(certFile), keyPem: read(keyFile), username, password }),
      },
    });
}

function masterKeyOf(data: DataDir): string {
  return readFileSync(data.file("secrets", "master.key"), "utf8").trim();
}
