// Certificates of a cluster's administrators that lie in a person's own files: they last a year, and nobody renews them.
import { parse } from "yaml";
import { fieldsOf, isObject, type Fields } from "@gpve/contracts/json-object.ts";
import { fromBase64, toBase64 } from "../secrets/base64-text.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { trustedBy } from "../secrets/rotation.ts";
import { isOfCluster } from "./same-cluster.ts";

export interface MergedCertificate {
  readonly context: string;
  /** PEM. */
  readonly crt: string;
}

/** `former` are fingerprints of authorities that were replaced. What is no such file is somebody else's. */
export function certificatesIn(
  kind: "talosconfig" | "kubeconfig",
  text: string,
  secrets: SecretsBundle,
  former: readonly string[],
): readonly MergedCertificate[] {
  const tree = treeOf(text);
  const found = kind === "talosconfig" ? ofTalos(tree) : ofKubernetes(tree);
  const ca = toBase64(trustedBy(secrets, kind === "talosconfig" ? "os" : "k8s"));
  return found.flatMap(({ context, authority, crt }) =>
    typeof crt === "string" && isOfCluster(authority, ca, former) ? [{ context, crt: fromBase64(crt) }] : [],
  );
}

interface Found {
  readonly context: string;
  readonly authority: unknown;
  readonly crt: unknown;
}

const ofTalos = (tree: Fields): readonly Found[] =>
  Object.entries(fieldsOf(tree["contexts"])).map(([context, entry]) => {
    const { ca, crt } = fieldsOf(entry);
    return { context, authority: ca, crt };
  });

function ofKubernetes(tree: Fields): readonly Found[] {
  const named = (list: string, what: string): ReadonlyMap<unknown, Fields> =>
    new Map(itemsOf(tree[list]).map((each) => [each["name"], fieldsOf(each[what])]));
  const [clusters, users] = [named("clusters", "cluster"), named("users", "user")];
  return [...named("contexts", "context")].map(([context, { cluster, user }]) => ({
    context: String(context),
    authority: clusters.get(cluster)?.["certificate-authority-data"],
    crt: users.get(user)?.["client-certificate-data"],
  }));
}

const itemsOf = (value: unknown): readonly Fields[] =>
  (Array.isArray(value) ? (value as unknown[]) : []).filter(isObject);

function treeOf(text: string): Fields {
  try {
    return fieldsOf(parse(text, { logLevel: "silent" }));
  } catch {
    return {};
  }
}
