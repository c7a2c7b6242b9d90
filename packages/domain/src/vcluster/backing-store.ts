// Where a virtual cluster keeps its objects: a database behind the etcd API of ours, an etcd of its own, or one that
// somebody else runs.
import { type Fields, fieldsOf } from "@gpve/contracts/json-object.ts";
import { readCidr } from "./cidr.ts";
import { invalidSpec } from "./invalid-spec.ts";
import type { Tier } from "./tier.ts";

export const BACKING_STORES = ["sqlite", "etcd", "external"] as const;
export type BackingStore = (typeof BACKING_STORES)[number];

/** What each tier is, where a request does not say. */
export const TIER_STORES: Readonly<
  Record<Tier, { readonly store: BackingStore; readonly replicas: number }>
> = {
  Starter: { store: "sqlite", replicas: 1 },
  Standard: { store: "sqlite", replicas: 1 },
  Performance: { store: "etcd", replicas: 1 },
  Enterprise: { store: "etcd", replicas: 3 },
};

/** By which an API server comes in to an etcd that somebody else runs; all are PEM. */
export interface ExternalEtcdKeys {
  /** Whom the etcd's own certificate is signed by. */
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

const ENDPOINT = "controlPlane.externalEtcdEndpoint";
const CERTIFICATES = "controlPlane.externalEtcdCertificates";

/** Of an external store, as URLs; undefined = the cluster has another. */
export function readExternalEndpoints(store: BackingStore, control: Fields): readonly string[] | undefined {
  const said = control["externalEtcdEndpoint"];
  if (store !== "external") {
    if (said === undefined || said === "") return undefined;
    throw invalidSpec(ENDPOINT, `belongs to backingStore external, and this is ${store}`);
  }
  if (typeof said !== "string" || said.trim() === "")
    throw invalidSpec(ENDPOINT, "must say where the etcd is: https://192.0.2.1:2379, several with commas");
  return said.split(",").map((each) => requireEndpoint(each.trim()));
}

/** Throws where one is missing: without them nobody could tell who the cluster's secrets go to. */
export function readExternalKeys(spec: Fields): ExternalEtcdKeys {
  const control = fieldsOf(spec["controlPlane"]);
  const said = fieldsOf(control["externalEtcdCertificates"]);
  const pem = (name: keyof ExternalEtcdKeys, begins: RegExp): string => {
    const value = said[name];
    if (typeof value === "string" && begins.test(value.trim())) return `${value.trim()}\n`;
    throw invalidSpec(`${CERTIFICATES}.${name}`, "must be there, as PEM");
  };
  return {
    ca: pem("ca", /^-----BEGIN CERTIFICATE-----/),
    cert: pem("cert", /^-----BEGIN CERTIFICATE-----/),
    key: pem("key", /^-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----/),
  };
}

export function endpointAddress(endpoint: string): { readonly address: string; readonly port: number } {
  const { hostname, port } = new URL(endpoint);
  return { address: hostname, port: Number(port) };
}

/** Not one of those that every namespace has for itself, of gpve's clusters, of what a cloud tells its machines, of many. */
export function isMachineAddress(address: string): boolean {
  return !/^(?:127|0|169\.254|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])|2(?:2[4-9]|[3-5]\d))\./.test(address);
}

/** An address, not a name: a control plane has a network of its own, in which nobody answers for names. */
function requireEndpoint(text: string): string {
  const [, address = "", port = ""] = /^https:\/\/([0-9.]+):(\d{1,5})$/.exec(text) ?? [];
  const isGood = readCidr(`${address}/32`) !== undefined && Number(port) > 0 && Number(port) < 65_536;
  if (!isGood)
    throw invalidSpec(
      ENDPOINT,
      `'${text}' is no https://ADDRESS:PORT with an IPv4 address, which it must be`,
    );
  if (!isMachineAddress(address))
    throw invalidSpec(
      ENDPOINT,
      `'${text}' is not an address that machines reach an etcd by: name one that is`,
    );
  return text;
}
