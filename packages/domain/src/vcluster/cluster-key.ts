// By what the store and the nodes know a cluster: names are unique in their tenant, folders and processes of a node are not
// below one. A key is made once and stays; whoever reads one takes nothing from it.
//
//   demo                        of tenant `default`, and of those that were made when names were everybody's
//   0-demo-k2v7m3qx5tbn         of any other: no name begins with a digit, so neither is ever taken for the other
//
// What comes last is a digest of tenant and name, and the name is cut where it is long: sockets of a node's processes have
// their key in their path, which may have 107 bytes.
import { AppError } from "@gpve/contracts/errors.ts";
import { serverName } from "./cluster-front.ts";
import { DEFAULT_TENANT, keyOf, type VirtualClusterRecord } from "./vcluster-record.ts";

/** Of a text, as bytes; nobody finds two texts with the same. */
export type Digest = (text: string) => Uint8Array;

export interface ClusterIdentity {
  readonly tenant: string;
  readonly name: string;
}

/** What has that key. */
export type ClusterLookup = (key: string) => Pick<VirtualClusterRecord, "tenant" | "name"> | undefined;

const SHOWN_LENGTH = 17;
const DIGEST_LENGTH = 12;
const LETTERS = "abcdefghijklmnopqrstuvwxyz234567";

/** Different for all that differ; never a name. */
export function tenantKey({ tenant, name }: ClusterIdentity, digest: Digest): string {
  // Neither has a line feed in it.
  const bytes = digest(`${tenant}\n${name}`);
  const tail = Array.from({ length: DIGEST_LENGTH }, (_none, at) => LETTERS.charAt((bytes[at] ?? 0) & 31));
  return `0-${name.slice(0, SHOWN_LENGTH)}-${tail.join("")}`;
}

/** Of the one that is there; undefined = there is none. */
export function findClusterKey(
  wanted: ClusterIdentity,
  lookup: ClusterLookup,
  digest: Digest,
): string | undefined {
  return [wanted.name, tenantKey(wanted, digest)].find((key) => {
    const found = lookup(key);
    return found?.tenant === wanted.tenant && found.name === wanted.name;
  });
}

/** Of one that is to be made. A name that an older one of another tenant has as its key is nobody's hindrance. */
export function newClusterKey(wanted: ClusterIdentity, lookup: ClusterLookup, digest: Digest): string {
  const isPlain = wanted.tenant === DEFAULT_TENANT && lookup(wanted.name) === undefined;
  return isPlain ? wanted.name : tenantKey(wanted, digest);
}

/** A text of a node's as its tenant reads it. In paths, and in ids below a slash, a key stays what it is. */
export function withName(
  text: string,
  { key, name }: { readonly key: string; readonly name: string },
): string {
  return text.replaceAll(new RegExp(String.raw`(?<![\w/-])${key}(?![\w-])`, "g"), name);
}

/** Tenants that differ in capitals, or by a slash and a dot, have one name for two at the ports that clusters share. */
export function requireOwnServerName(
  { tenant, name }: ClusterIdentity,
  all: readonly Pick<VirtualClusterRecord, "tenant" | "name">[],
): void {
  const wanted = serverName(name, tenant);
  if (all.some((each) => each.tenant !== tenant && serverName(each.name, each.tenant) === wanted))
    throw new AppError(
      "object.conflict",
      `virtual cluster '${name}' of tenant '${tenant}' would be asked for as ${wanted}, which is another's already: choose another name`,
    );
}

/** By what the nodes of a cluster know it, and by what its tenant does where that is something else. */
export function nodeWords(record: Pick<VirtualClusterRecord, "name" | "tenant" | "key">): {
  readonly vcluster: string;
  readonly tenant: string;
  readonly called?: string;
} {
  const { name, tenant } = record;
  const vcluster = keyOf(record);
  return { vcluster, tenant, ...(vcluster === name ? {} : { called: name }) };
}
