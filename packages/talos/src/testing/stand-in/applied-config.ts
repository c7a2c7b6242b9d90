// What a machine reads of the configuration it is given; it refuses what real ones refuse.
import { Code, ConnectError } from "@connectrpc/connect";
import { isObject } from "@gpve/client/response-error.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import { parseConfig } from "../../config/config-text.ts";
import type { ConfigDocument } from "../../config/document.ts";
import { refusalsOf } from "../../config/refusals.ts";
import { fromBase64 } from "../../secrets/base64-text.ts";
import type { CertificateAndKey } from "../../secrets/bundle.ts";

export interface AppliedConfig {
  readonly text: string;
  readonly isControlPlane: boolean;
  readonly hostname: string | undefined;
  readonly clusterId: string;
  /** Workers get no key. */
  readonly ca: { readonly crt: string; readonly key?: string };
  /** Authorities whose clients are let in beside that. */
  readonly accepted: readonly string[];
  /** Where it is installed to, when it is not yet. */
  readonly installDisk: string;
}

type Tree = Readonly<Record<string, unknown>>;

export function readApplied(text: string): AppliedConfig {
  let documents: readonly Tree[];
  try {
    documents = parseConfig(text, "the configuration");
  } catch (err) {
    throw invalid(messageOf(err));
  }
  const main = documents.find((document) => document["machine"] !== undefined);
  if (main === undefined) throw invalid("configuration has no machine section");
  const type = textAt(main, "machine", "type");
  if (type !== "controlplane" && type !== "worker") throw invalid(`unknown machine type "${type}"`);
  const [refused] = refusalsOf(documents as readonly ConfigDocument[], "v1.14");
  if (refused !== undefined) throw invalid(`${refused.path.join(".")} ${refused.why}`);
  const identity = documentOf(documents, "DiscoveryIdentityConfig");
  const place = {
    id: textAt(main, "cluster", "id") || textAt(identity, "clusterID"),
    endpoint:
      textAt(main, "cluster", "controlPlane", "endpoint") ||
      textAt(documentOf(documents, "KubeClusterConfig"), "endpoint"),
  };
  if (textAt(main, "machine", "token") === "") throw invalid("machine.token is required");
  if (place.id === "") throw invalid("cluster.id is required");
  if (place.endpoint === "") throw invalid("cluster.controlPlane.endpoint is required");
  const crt = fromBase64(textAt(main, "machine", "ca", "crt"));
  const key = fromBase64(textAt(main, "machine", "ca", "key"));
  if (crt === "") throw invalid("machine.ca.crt is required");
  if (type === "controlplane" && key === "") throw invalid("machine.ca.key is required on control planes");
  const hostname =
    textAt(main, "machine", "network", "hostname") ||
    textAt(documentOf(documents, "HostnameConfig"), "hostname");
  return {
    text,
    isControlPlane: type === "controlplane",
    hostname: hostname === "" ? undefined : hostname,
    clusterId: isFound(main, documents) ? place.id : `${place.id} at ${place.endpoint}`,
    ca: { crt, ...(key === "" ? {} : { key }) },
    accepted: acceptedOf(main),
    installDisk: textAt(main, "machine", "install", "disk") || selectedDisk(documents),
  };
}

function acceptedOf(main: Tree): readonly string[] {
  const list = isObject(main["machine"]) ? main["machine"]["acceptedCAs"] : undefined;
  return (Array.isArray(list) ? (list as unknown[]) : []).map((each) => {
    const crt = fromBase64(textAt(isObject(each) ? each : {}, "crt"));
    if (!crt.includes("BEGIN CERTIFICATE")) throw invalid("machine.acceptedCAs has no certificate");
    return crt;
  });
}

/** Machines find another by discovery, or at their endpoint when they do without. */
function isFound(main: Tree, documents: readonly Tree[]): boolean {
  if (documents.some(({ kind }) => kind === "DiscoveryIdentityConfig"))
    return documents.some(({ kind }) => kind === "DiscoveryServiceConfig");
  const discovery = isObject(main["cluster"]) ? main["cluster"]["discovery"] : undefined;
  return !isObject(discovery) || discovery["enabled"] !== false;
}

function selectedDisk(documents: readonly Tree[]): string {
  const install = documentOf(documents, "UnattendedInstallConfig");
  const match = textAt(install, "provisioning", "diskSelector", "match");
  return /^disk\.dev_path == "(.*)"$/.exec(match)?.[1] ?? "";
}

const documentOf = (documents: readonly Tree[], kind: string): Tree =>
  documents.find((document) => document["kind"] === kind) ?? {};

export function authorityOf(config: AppliedConfig): CertificateAndKey | undefined {
  const { crt, key } = config.ca;
  return key === undefined ? undefined : { crt, key };
}

function textAt(tree: Tree, ...path: readonly string[]): string {
  let value: unknown = tree;
  for (const name of path) value = isObject(value) ? value[name] : undefined;
  return typeof value === "string" ? value : "";
}

function invalid(message: string): ConnectError {
  return new ConnectError(`configuration validation failed: ${message}`, Code.InvalidArgument);
}
