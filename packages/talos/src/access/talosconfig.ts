// talosconfig: how talosctl and our own client reach a cluster's machines.
import { AppError } from "@gpve/contracts/errors.ts";
import { isMap } from "yaml";
import { writeConfig } from "../config/config-text.ts";
import { signClientCertificate } from "../secrets/authority.ts";
import { toBase64 } from "../secrets/base64-text.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { trustedBy } from "../secrets/rotation.ts";
import { editableMap, freeName, toText } from "./editable-yaml.ts";
import { isOfCluster } from "./same-cluster.ts";

export const talosRoles = ["os:admin", "os:operator", "os:reader", "os:etcd:backup"] as const;
export type TalosRole = (typeof talosRoles)[number];

const YEAR_HOURS = 8760;

export interface TalosContext {
  /** Addresses of control planes; never the VIP, which is not there without etcd. */
  readonly endpoints: readonly string[];
  readonly nodes?: readonly string[];
  /** The rest is base64 of PEM. */
  readonly ca: string;
  readonly crt: string;
  readonly key: string;
}

export interface TalosContextRequest {
  readonly endpoints: readonly string[];
  readonly nodes?: readonly string[];
  readonly roles?: readonly TalosRole[];
  readonly lifetimeHours?: number;
  readonly now: number;
}

/** Signs a client certificate for these roles; its key exists in the result only. */
export async function createTalosContext(
  secrets: SecretsBundle,
  request: TalosContextRequest,
): Promise<TalosContext> {
  const client = await signClientCertificate(
    secrets.certs.os,
    {
      organizations: request.roles ?? ["os:admin"],
      keyKind: "ed25519",
      lifetimeHours: request.lifetimeHours ?? YEAR_HOURS,
      now: request.now,
    },
    "Talos' authority",
  );
  return {
    endpoints: request.endpoints,
    ...(request.nodes === undefined || request.nodes.length === 0 ? {} : { nodes: request.nodes }),
    ca: toBase64(trustedBy(secrets, "os")),
    crt: toBase64(client.crt),
    key: toBase64(client.key),
  };
}

export function writeTalosconfig(name: string, context: TalosContext): string {
  return writeConfig([{ context: name, contexts: { [name]: { ...context } } }]);
}

export interface MergedTalosconfig {
  readonly text: string;
  /** Differs from the name asked for when that belongs to another cluster. */
  readonly contextName: string;
}

/**
 * Puts a context into an existing file and selects it. The cluster's own context (same authority, or a `former` one by its
 * fingerprint) is replaced, so that doing it again changes nothing else; one of another cluster keeps its name.
 */
export function mergeTalosconfig(
  existing: string,
  name: string,
  context: TalosContext,
  former: readonly string[] = [],
): MergedTalosconfig {
  const document = editableMap(existing, "the talosconfig");
  const contexts = document.get("contexts");
  if (contexts !== undefined && contexts !== null && !isMap(contexts)) {
    throw new AppError("config.invalid", "contexts of the talosconfig is no map; it was left as it is");
  }
  if (!isMap(contexts)) document.set("contexts", document.createNode({}));
  const contextName = freeName(name, (candidate) => {
    const isThere = document.hasIn(["contexts", candidate]);
    return isThere && !isOfCluster(document.getIn(["contexts", candidate, "ca"]), context.ca, former);
  });
  for (const [key, value] of Object.entries(context)) {
    document.setIn(["contexts", contextName, key], document.createNode(value));
  }
  if (context.nodes === undefined) document.deleteIn(["contexts", contextName, "nodes"]);
  document.set("context", contextName);
  return { text: toText(document), contextName };
}
