// Where a server that runs etcd itself keeps it, and how its member is reached.
import { join } from "node:path";
import type { DataDir } from "@gpve/kit/data-dir.ts";

/** As the configuration file says it. */
export interface EmbeddedEtcdSettings {
  /** Where the other servers reach this member. */
  readonly address: string;
  readonly port: number;
  readonly peerPort: number;
}

export interface EtcdPlaces {
  readonly folder: string;
  /** etcd's own. */
  readonly data: string;
  /** What this server knows of the members, so that it finds them again. */
  readonly known: string;
  readonly caFile: string;
  readonly caKeyFile: string;
  readonly certFile: string;
  readonly keyFile: string;
  readonly note: string;
  readonly log: string;
}

export function etcdPlaces(data: DataDir): EtcdPlaces {
  const folder = data.file("etcd");
  return {
    folder,
    data: join(folder, "data"),
    known: join(folder, "known.json"),
    caFile: join(folder, "pki", "ca.crt"),
    caKeyFile: join(folder, "pki", "ca.key"),
    certFile: join(folder, "pki", "member.crt"),
    keyFile: join(folder, "pki", "member.key"),
    note: data.file("run", "etcd.json"),
    log: data.file("log", "etcd.log"),
  };
}

export function clientUrl({ address, port }: EmbeddedEtcdSettings): string {
  return `https://${bracketed(address)}:${port}`;
}

export function peerUrl({ address, peerPort }: EmbeddedEtcdSettings): string {
  return `https://${bracketed(address)}:${peerPort}`;
}

function bracketed(address: string): string {
  return address.includes(":") ? `[${address}]` : address;
}
