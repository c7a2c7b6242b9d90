// `gpve server join --endpoint URL`: makes this machine a further server of a cluster. The token comes on standard input.
import { createSocket } from "node:dgram";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { isIPv6 } from "node:net";
import { dirname, resolve } from "node:path";
import { whenNameIsFree } from "@gpve/agent/infrastructure/server-link/when-name-is-free.ts";
import { joinAsServer, type ServerInvitation } from "@gpve/agent/infrastructure/server-link/join-server.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { openDataDir, type DataDir } from "@gpve/kit/data-dir.ts";
import { configPath } from "../config-file.ts";
import { keepKnown } from "../etcd/embedded-etcd.ts";
import { keepAuthority } from "../etcd/etcd-certificates.ts";
import { etcdPlaces } from "../etcd/etcd-places.ts";
import type { Io } from "../io.ts";
import { machineName } from "../machine-names.ts";
import { commandOptions, dataDirOption } from "./options.ts";

const DEFAULT_PORT = "8006";

export async function serverJoin(args: readonly string[], io: Io): Promise<number> {
  const options = commandOptions("server join", args, {
    endpoint: { type: "string" },
    address: { type: "string" },
    port: { type: "string" },
    config: { type: "string" },
    data: { type: "string" },
    node: { type: "string" },
    "etcd-address": { type: "string" },
  });
  const { endpoint, address = "0.0.0.0", port = DEFAULT_PORT } = options;
  if (endpoint === undefined)
    throw new AppError("config.invalid", "gpve server join needs --endpoint https://SERVER:8006");
  const file = configPath("server", options.config);
  const data = openDataDir(dataDirOption(options.data));
  refuseUsed(file, data);
  const token = readFileSync(0, "utf8").trim();
  const name = options.node ?? machineName();
  const asking = { endpoint, token, name, version: PRODUCT_VERSION, clock: systemClock };
  const given = await whenNameIsFree(() => joinAsServer(asking), { clock: systemClock, say: io.out });
  const listen = { address, port: Number(port) };
  const config =
    given.etcdCaKeyPem === ""
      ? keep(data, given, listen)
      : keepEmbedded(data, given, listen, options["etcd-address"] ?? (await addressTowards(endpoint)));
  mkdirSync(dirname(file), { recursive: true, mode: 0o755 });
  writeFileAtomic(file, `${JSON.stringify(config, undefined, 2)}\n`, 0o600);
  io.out(
    `${name} is a server of cluster ${given.clusterName} now. Start it: ./gpve server --config ${resolve(file)}`,
  );
  return 0;
}

/** A machine that is a server already would lose the key of what it has sealed. */
function refuseUsed(file: string, data: DataDir): void {
  for (const path of [file, data.file("secrets", "master.key"), data.file("server", "store.db")]) {
    if (existsSync(path))
      throw new AppError(
        "config.invalid",
        `${path} is there: this machine is a server already, or was one; name other places with --data DIR and --config FILE, or move it away`,
      );
  }
}

/** gpve runs etcd there: this server becomes a member when it starts, or stands by. */
function keepEmbedded(
  data: DataDir,
  given: ServerInvitation,
  server: { readonly address: string; readonly port: number },
  address: string,
): object {
  const places = etcdPlaces(data);
  writeFileAtomic(data.file("secrets", "master.key"), `${given.masterKey.trim()}\n`);
  keepAuthority(places, given.etcdCaPem, given.etcdCaKeyPem);
  keepKnown(places, given.etcdEndpoints);
  return {
    apiVersion: "gpve.io/v1",
    kind: "ServerConfiguration",
    dataDir: data.path,
    server,
    cluster: { name: given.clusterName, etcd: { embedded: true, address } },
  };
}

/** By which address of this machine it speaks with the other server: the others reach it there. No packet is sent. */
function addressTowards(endpoint: string): Promise<string> {
  const { hostname: host } = new URL(endpoint);
  const name = host.replaceAll(/[[\]]/g, "");
  const socket = createSocket(isIPv6(name) ? "udp6" : "udp4");
  return new Promise((resolve, reject) => {
    socket.once("error", reject);
    socket.connect(1, name, () => resolve(socket.address().address));
  }).finally(() => socket.close()) as Promise<string>;
}

/** Secrets into files of their own (0600); the configuration only names them. */
function keep(
  data: DataDir,
  given: ServerInvitation,
  listen: { readonly address: string; readonly port: number },
): object {
  const put = (text: string, ...place: string[]): string | undefined => {
    if (text === "") return undefined;
    const path = data.file(...place);
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    writeFileAtomic(path, `${text.trim()}\n`);
    return path;
  };
  put(given.masterKey, "secrets", "master.key");
  const present = Object.entries({
    caFile: put(given.etcdCaPem, "pki", "etcd-ca.crt"),
    certFile: put(given.etcdCertPem, "pki", "etcd.crt"),
    keyFile: put(given.etcdKeyPem, "pki", "etcd.key"),
    username: given.etcdUsername === "" ? undefined : given.etcdUsername,
    password: given.etcdPassword === "" ? undefined : given.etcdPassword,
  }).filter(([, value]) => value !== undefined);
  return {
    apiVersion: "gpve.io/v1",
    kind: "ServerConfiguration",
    dataDir: data.path,
    server: listen,
    cluster: {
      name: given.clusterName,
      etcd: { endpoints: given.etcdEndpoints, ...Object.fromEntries(present) },
    },
  };
}
