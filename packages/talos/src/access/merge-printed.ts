// A kubeconfig that was printed whole, merged into a file of others: what it says of the cluster, its user and its context is there
// to the letter, by the names that it has.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Document } from "yaml";
import type { ConfigDocument } from "../config/document.ts";
import { editableMap, freeName, toText } from "./editable-yaml.ts";
import type { MergedKubeconfig } from "./kubeconfig.ts";
import { positionOf, putNamed } from "./named-entries.ts";
import { isOfCluster } from "./same-cluster.ts";

type Entry = ConfigDocument & { readonly name: string };

interface Printed {
  readonly clusters: readonly Entry[];
  readonly users: readonly Entry[];
  readonly contexts: readonly Entry[];
}

/** Of one cluster, one user and one context. Entries of the same cluster are replaced in their place; where its name is another's in
 * that file, ours gets a number. */
export function mergePrinted(existing: string, printed: string): MergedKubeconfig {
  const { clusters, users, contexts } = JSON.parse(printed) as Printed;
  const [cluster, user] = [clusters[0], users[0]];
  if (cluster === undefined || user === undefined || contexts.length !== 1)
    throw new AppError("internal.error", "the kubeconfig is not of one cluster and one user");
  const document = editableMap(existing, "the kubeconfig");
  if (!document.has("apiVersion")) document.set("apiVersion", "v1");
  if (!document.has("kind")) document.set("kind", "Config");
  const name = freeName(cluster.name, (candidate) => isAnothers(document, candidate, cluster));
  const userName = name === cluster.name ? user.name : `${user.name}${name.slice(cluster.name.length)}`;
  putNamed(document, "clusters", { ...cluster, name });
  putNamed(document, "users", { ...user, name: userName });
  putNamed(document, "contexts", { name, context: { cluster: name, user: userName } });
  document.set("current-context", name);
  return { text: toText(document), contextName: name };
}

/** A context of that name that leads elsewhere, or a cluster of that name with another authority and at another place. */
function isAnothers(document: Document, name: string, { cluster: ours }: Entry): boolean {
  const context = positionOf(document, "contexts", name);
  if (context >= 0 && document.getIn(["contexts", context, "context", "cluster"]) !== name) return true;
  const at = positionOf(document, "clusters", name);
  if (at < 0) return false;
  const there = (field: string): unknown => document.getIn(["clusters", at, "cluster", field]);
  const said = ours as Readonly<Record<string, string | undefined>>;
  const ca = said["certificate-authority-data"] ?? "";
  if (isOfCluster(there("certificate-authority-data"), ca, [])) return false;
  // Made anew under its name.
  return ["server", "tls-server-name"].some((field) => there(field) !== said[field]);
}
