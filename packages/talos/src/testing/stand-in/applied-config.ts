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
    clusterId: textAt(main, "cluster", "id"),
    ca: { crt, ...(key === "" ? {} : { key }) },
  };
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
