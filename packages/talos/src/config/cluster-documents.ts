// Settings of cluster.yaml that Talos has no generator input for, written as a patch on every machine.
import { hkdfSync } from "node:crypto";
import type { ConfigContract } from "../contract/contracts.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { type ConfigDocument, typedDocument } from "./document.ts";

export interface ClusterWideSettings {
  readonly discoveryEndpoint: string | undefined;
  readonly diskEncryption: string;
}

export function clusterDocuments(
  contract: ConfigContract,
  settings: ClusterWideSettings,
  secrets: SecretsBundle,
  machine: string,
): readonly ConfigDocument[] {
  const endpoint = settings.discoveryEndpoint;
  return [
    ...(endpoint === undefined
      ? []
      : [
          contract.kubernetes === "document"
            ? typedDocument("DiscoveryServiceConfig", { name: "default", endpoint })
            : { cluster: { discovery: { registries: { service: { endpoint } } } } },
        ]),
    ...(settings.diskEncryption === "none"
      ? []
      : ["STATE", "EPHEMERAL"].map((name) =>
          typedDocument("VolumeConfig", {
            name,
            encryption: { provider: "luks2", keys: [{ slot: 0, ...key(settings, secrets, machine) }] },
          }),
        )),
  ];
}

function key(
  { diskEncryption }: ClusterWideSettings,
  secrets: SecretsBundle,
  machine: string,
): ConfigDocument {
  if (diskEncryption === "tpm") return { tpm: {} };
  // Derived, so that the secrets bundle alone opens every disk again; another one for each machine.
  const bytes = hkdfSync("sha256", secrets.cluster.secret, "", `gpve talos disk encryption ${machine}`, 32);
  return { static: { passphrase: Buffer.from(bytes).toString("base64") } };
}
