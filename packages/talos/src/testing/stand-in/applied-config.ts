// What a machine reads of the configuration it is given; it refuses what real ones refuse.
import { Code, ConnectError } from "@connectrpc/connect";
import { isObject } from "@gpve/client/response-error.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import { parseConfig } from "../../config/config-text.ts";
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
  for (const path of [
    ["machine", "token"],
    ["cluster", "id"],
    ["cluster", "controlPlane", "endpoint"],
  ])
    if (textAt(main, ...path) === "") throw invalid(`${path.join(".")} is required`);
  const crt = fromBase64(textAt(main, "machine", "ca", "crt"));
  const key = fromBase64(textAt(main, "machine", "ca", "key"));
  if (crt === "") throw invalid("machine.ca.crt is required");
  if (type === "controlplane" && key === "") throw invalid("machine.ca.key is required on control planes");
  const named = documents.find((document) => document["kind"] === "HostnameConfig");
  const hostname = textAt(main, "machine", "network", "hostname") || textAt(named ?? {}, "hostname");
  return {
    text,
    isControlPlane: type === "controlplane",
    hostname: hostname === "" ? undefined : hostname,
    clusterId: meetingPlace(main),
    ca: { crt, ...(key === "" ? {} : { key }) },
    accepted: acceptedOf(main),
    installDisk: textAt(main, "machine", "install", "disk"),
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

/** Where machines find another: by discovery, or at their endpoint when they do without. */
function meetingPlace(main: Tree): string {
  const id = textAt(main, "cluster", "id");
  const discovery = isObject(main["cluster"]) ? main["cluster"]["discovery"] : undefined;
  const isFound = !isObject(discovery) || discovery["enabled"] !== false;
  return isFound ? id : `${id} at ${textAt(main, "cluster", "controlPlane", "endpoint")}`;
}

export function authorityOf(config: AppliedConfig): CertificateAndKey | undefined {
  const { crt, key } = config.ca;
  return key === undefined ? undefined : { crt, key };
}

function textAt(tree: Tree, ...path: readonly string[]): string {
  let value: unknown = tree;
  for (const name of path) value = isObject(value) ? value[name] : undefined;
  return typeof value === "string" ? value : "";
}

function fromBase64(text: string): string {
  return Buffer.from(text, "base64").toString("utf8");
}

function invalid(message: string): ConnectError {
  return new ConnectError(`configuration validation failed: ${message}`, Code.InvalidArgument);
}
